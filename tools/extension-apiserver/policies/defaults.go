package policies

import (
	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of Kubernetes' registry: the library that calls webhooks and policies relies on them.

func DefaultValidating(o *v1.ValidatingAdmissionPolicy) {
	fill(&o.Spec.FailurePolicy, v1.Fail)
	fillMatch(o.Spec.MatchConstraints)
}

func DefaultMutating(o *v1.MutatingAdmissionPolicy) {
	fill(&o.Spec.FailurePolicy, v1.Fail)
	fillMatch(o.Spec.MatchConstraints)
}

func DefaultValidatingBinding(o *v1.ValidatingAdmissionPolicyBinding) {
	fillMatch(o.Spec.MatchResources)
}
func DefaultMutatingBinding(o *v1.MutatingAdmissionPolicyBinding) { fillMatch(o.Spec.MatchResources) }

func DefaultValidatingWebhooks(o *v1.ValidatingWebhookConfiguration) {
	for i := range o.Webhooks {
		w := &o.Webhooks[i]
		fillWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds, &w.NamespaceSelector, &w.ObjectSelector,
			w.Rules, &w.ClientConfig)
	}
}

func DefaultMutatingWebhooks(o *v1.MutatingWebhookConfiguration) {
	for i := range o.Webhooks {
		w := &o.Webhooks[i]
		fill(&w.ReinvocationPolicy, v1.NeverReinvocationPolicy)
		fillWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds, &w.NamespaceSelector, &w.ObjectSelector,
			w.Rules, &w.ClientConfig)
	}
}

func fill[T any](place **T, value T) {
	if *place == nil {
		*place = &value
	}
}

func fillMatch(match *v1.MatchResources) {
	if match == nil {
		return
	}
	fill(&match.MatchPolicy, v1.Equivalent)
	fill(&match.NamespaceSelector, metav1.LabelSelector{})
	fill(&match.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]v1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		for i := range rules {
			fill(&rules[i].Scope, v1.AllScopes)
		}
	}
}

func fillWebhook(policy **v1.FailurePolicyType, match **v1.MatchPolicyType, timeout **int32,
	namespaces, objects **metav1.LabelSelector, rules []v1.RuleWithOperations, client *v1.WebhookClientConfig,
) {
	fill(policy, v1.Fail)
	fill(match, v1.Equivalent)
	fill(timeout, 10)
	fill(namespaces, metav1.LabelSelector{})
	fill(objects, metav1.LabelSelector{})
	for i := range rules {
		fill(&rules[i].Scope, v1.AllScopes)
	}
	if client.Service != nil {
		fill(&client.Service.Port, 443)
	}
}
