package main

import (
	"context"
	"fmt"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/cel/environment"

	"laneway/policies"
)

// judgePolicy judges a ValidatingAdmissionPolicy or the configuration of webhooks. A policy's expressions
// are also checked against the types of what it is about: built-in kinds, and the definitions named.
func judgePolicy(line []byte) (answer, error) {
	var q struct {
		head
		Policy      raw      `json:"policy"`
		Definitions []string `json:"definitions"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	var about metav1.TypeMeta
	if err := read(q.Policy, &about); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	out := answer{}
	switch about.Kind {
	case "ValidatingAdmissionPolicy":
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := read(q.Policy, policy); err != nil {
			return answer{"unreadable": err.Error()}, nil
		}
		policies.DefaultValidating(policy)
		errs = policies.Validating(policy)
		if len(errs) == 0 {
			warnings, err := typeWarnings(policy, q.Definitions)
			if err != nil {
				return nil, err
			}
			out["warnings"] = warnings
		}
	case "ValidatingWebhookConfiguration":
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := read(q.Policy, configuration); err != nil {
			return answer{"unreadable": err.Error()}, nil
		}
		policies.DefaultValidatingWebhooks(configuration)
		errs = policies.ValidatingWebhooks(configuration)
	case "MutatingWebhookConfiguration":
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := read(q.Policy, configuration); err != nil {
			return answer{"unreadable": err.Error()}, nil
		}
		policies.DefaultMutatingWebhooks(configuration)
		errs = policies.MutatingWebhooks(configuration)
	default:
		return nil, fmt.Errorf("no policy of kind %q", about.Kind)
	}
	out["errors"] = report(errs)
	return out, nil
}

// compiled keeps the policies that were asked about: a test asks about one thousands of times.
var compiled sync.Map

func compile(data []byte) (validating.Validator, error) {
	if found, ok := compiled.Load(string(data)); ok {
		return found.(validating.Validator), nil
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := read(data, policy); err != nil {
		return nil, err
	}
	policies.DefaultValidating(policy)
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	spec := &policy.Spec
	options := plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	for _, v := range spec.Variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options, environment.StoredExpressions)
	}
	var conditions, expressions, messages, notes []plugincel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	for _, v := range spec.Validations {
		expressions = append(expressions, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		var message plugincel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	for _, v := range spec.AuditAnnotations {
		notes = append(notes, &validating.AuditAnnotationCondition{Key: v.Key, ValueExpression: v.ValueExpression})
	}
	var matcher matchconditions.Matcher
	if len(conditions) > 0 {
		matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, options, environment.StoredExpressions),
			spec.FailurePolicy, "policy", "validate", policy.Name)
	}
	quiet := options
	quiet.HasAuthorizer = false
	validator := validating.NewValidator(
		compiler.CompileCondition(expressions, options, environment.StoredExpressions), matcher,
		compiler.CompileCondition(notes, options, environment.StoredExpressions),
		compiler.CompileCondition(messages, quiet, environment.StoredExpressions), spec.FailurePolicy, nil)
	compiled.Store(string(data), validator)
	return validator, nil
}

type request struct {
	Operation   string                      `json:"operation"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	Subresource string                      `json:"subresource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	DryRun      bool                        `json:"dryRun"`
	UserInfo    authenticationv1.UserInfo   `json:"userInfo"`
}

// admit says what a policy decides about a request that it matches. Its `authorizer` allows all.
func admit(line []byte) (answer, error) {
	var q struct {
		head
		Policy          raw               `json:"policy"`
		Request         request           `json:"request"`
		Object          map[string]any    `json:"object"`
		OldObject       map[string]any    `json:"oldObject"`
		Params          map[string]any    `json:"params"`
		NamespaceObject *corev1.Namespace `json:"namespaceObject"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	validator, err := compile(q.Policy)
	if err != nil {
		return nil, err
	}
	r := q.Request
	extra := map[string][]string{}
	for key, values := range r.UserInfo.Extra {
		extra[key] = values
	}
	who := &user.DefaultInfo{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: extra}
	kind := schema.GroupVersionKind(r.Kind)
	resource := schema.GroupVersionResource(r.Resource)
	object, old, params := wrap(q.Object), wrap(q.OldObject), wrap(q.Params)
	attributes := admission.NewAttributesRecord(object, old, kind, r.Namespace, r.Name, resource, r.Subresource,
		admission.Operation(r.Operation), nil, r.DryRun, who)
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedObject: object, VersionedOldObject: old, VersionedKind: kind,
	}
	result := validator.Validate(context.Background(), resource, versioned, params, q.NamespaceObject,
		celconfig.RuntimeCELCostBudget, authorizerfactory.NewAlwaysAllowAuthorizer())
	decisions := []answer{}
	for _, d := range result.Decisions {
		decisions = append(decisions, answer{
			"action": string(d.Action), "evaluation": string(d.Evaluation), "message": d.Message, "reason": string(d.Reason),
		})
	}
	notes := map[string]string{}
	for _, note := range result.AuditAnnotations {
		if note.Action == validating.AuditAnnotationActionPublish {
			notes[note.Key] = note.Value
		}
	}
	return answer{"decisions": decisions, "auditAnnotations": notes}, nil
}

func wrap(content map[string]any) runtime.Object {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}
