// Package policies is the validation of admission policies and webhooks, which Kubernetes keeps in its
// own registry and not in its libraries: the rules are written from it, each expression is compiled by
// the library, with its environment and its limits.
package policies

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

const (
	most     = 20 << 10 // bytes of audit annotations
	atMost   = 64       // match conditions
	notesMax = 20       // audit annotations
)

// Validating judges a ValidatingAdmissionPolicy.
func Validating(policy *v1.ValidatingAdmissionPolicy) field.ErrorList {
	spec, at := &policy.Spec, field.NewPath("spec")
	errs := failure(spec.FailurePolicy, at.Child("failurePolicy"))
	hasParams := spec.ParamKind != nil
	if hasParams {
		errs = append(errs, paramKind(spec.ParamKind, at.Child("paramKind"))...)
	}
	if spec.MatchConstraints == nil {
		errs = append(errs, field.Required(at.Child("matchConstraints"), ""))
	} else {
		errs = append(errs, Match(spec.MatchConstraints, at.Child("matchConstraints"))...)
		if len(spec.MatchConstraints.ResourceRules) == 0 {
			errs = append(errs, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
		}
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return append(errs, field.InternalError(at, err))
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}
	names := sets.New[string]()
	for i := range spec.Variables {
		variable, at := &spec.Variables[i], at.Child("variables").Index(i)
		switch {
		case variable.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !isIdentifier(variable.Name):
			errs = append(errs, field.Invalid(at.Child("name"), variable.Name, "name is not a valid CEL identifier"))
		case names.Has(variable.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), variable.Name))
		}
		names.Insert(variable.Name)
		if strings.TrimSpace(variable.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
			continue
		}
		accessor := &validating.Variable{Name: variable.Name, Expression: variable.Expression}
		result := compiler.CompileAndStoreVariable(accessor, options, environment.NewExpressions)
		errs = append(errs, asError(result.Error, at.Child("expression"), variable.Expression)...)
	}
	errs = append(errs, conditions(compiler, spec.MatchConditions, options, at.Child("matchConditions"))...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		errs = append(errs,
			field.Required(at.Child("validations"), "validations or auditAnnotations must contain at least one item"),
			field.Required(at.Child("auditAnnotations"), "validations or auditAnnotations must contain at least one item"))
	}
	for i := range spec.Validations {
		errs = append(errs, oneValidation(compiler, &spec.Validations[i], options, at.Child("validations").Index(i))...)
	}
	return append(errs, annotations(compiler, policy, options, at.Child("auditAnnotations"))...)
}

func oneValidation(compiler plugincel.Compiler, v *v1.Validation, options plugincel.OptionalVariableDeclarations,
	at *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		result := compiler.CompileCELExpression(&validating.ValidationCondition{Expression: v.Expression}, options, environment.NewExpressions)
		errs = append(errs, asError(result.Error, at.Child("expression"), v.Expression)...)
	}
	message, said := strings.TrimSpace(v.MessageExpression), strings.TrimSpace(v.Message)
	if v.MessageExpression != "" && message == "" {
		errs = append(errs, field.Invalid(at.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	} else if message != "" {
		options.HasAuthorizer = false
		result := compiler.CompileCELExpression(
			&validating.MessageExpressionCondition{MessageExpression: message}, options, environment.NewExpressions)
		errs = append(errs, asError(result.Error, at.Child("messageExpression"), message)...)
	}
	switch {
	case v.Message != "" && said == "":
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "message must be non-empty if specified"))
	case hasNewline(said):
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "message must not contain line breaks"))
	case hasNewline(v.Expression) && said == "" && message == "":
		errs = append(errs, field.Required(at.Child("message"),
			"message must be specified if expression contains line breaks"))
	}
	known := sets.New("Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge")
	if v.Reason != nil && !known.Has(string(*v.Reason)) {
		errs = append(errs, field.NotSupported(at.Child("reason"), *v.Reason, sets.List(known)))
	}
	return errs
}

func annotations(compiler plugincel.Compiler, policy *v1.ValidatingAdmissionPolicy,
	options plugincel.OptionalVariableDeclarations, at *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if len(policy.Spec.AuditAnnotations) > notesMax {
		return append(errs, field.Invalid(at, policy.Spec.AuditAnnotations, fmt.Sprintf("must not have more than %d auditAnnotations", notesMax)))
	}
	seen := sets.New[string]()
	for i, note := range policy.Spec.AuditAnnotations {
		at := at.Index(i)
		if note.Key == "" {
			errs = append(errs, field.Required(at.Child("key"), "key is not specified"))
		} else if wrong := validation.IsQualifiedName(policy.Name + "/" + note.Key); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at.Child("key"), note.Key, "Audit annotation key must be a qualified name. "+strings.Join(wrong, "; ")))
		}
		if seen.Has(note.Key) {
			errs = append(errs, field.Duplicate(at.Child("key"), note.Key))
		}
		seen.Insert(note.Key)
		switch {
		case strings.TrimSpace(note.ValueExpression) == "":
			errs = append(errs, field.Required(at.Child("valueExpression"), "valueExpression is not specified"))
		case len(note.ValueExpression) > most/4:
			errs = append(errs, field.TooLong(at.Child("valueExpression"), note.ValueExpression, most/4))
		default:
			result := compiler.CompileCELExpression(&validating.AuditAnnotationCondition{ValueExpression: note.ValueExpression}, options, environment.NewExpressions)
			errs = append(errs, asError(result.Error, at.Child("valueExpression"), note.ValueExpression)...)
		}
	}
	return errs
}

func conditions(compiler plugincel.Compiler, list []v1.MatchCondition, options plugincel.OptionalVariableDeclarations,
	at *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if len(list) > atMost {
		errs = append(errs, field.TooMany(at, len(list), atMost))
	}
	seen := sets.New[string]()
	for i := range list {
		condition, at := &list[i], at.Index(i)
		if strings.TrimSpace(condition.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			accessor := &matchconditions.MatchCondition{Name: condition.Name, Expression: strings.TrimSpace(condition.Expression)}
			result := compiler.CompileCELExpression(accessor, options, environment.NewExpressions)
			errs = append(errs, asError(result.Error, at.Child("expression"), accessor.Expression)...)
		}
		switch {
		case condition.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case seen.Has(condition.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), condition.Name))
		default:
			for _, wrong := range validation.IsQualifiedName(condition.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), condition.Name, wrong))
			}
		}
		seen.Insert(condition.Name)
	}
	return errs
}

// Match judges which requests a policy or its binding is about.
func Match(match *v1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if match.MatchPolicy == nil {
		errs = append(errs, field.Required(at.Child("matchPolicy"), ""))
	} else if !slices.Contains([]v1.MatchPolicyType{v1.Exact, v1.Equivalent}, *match.MatchPolicy) {
		errs = append(errs, field.NotSupported(at.Child("matchPolicy"), *match.MatchPolicy, []string{"Equivalent", "Exact"}))
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	errs = append(errs, metav1validation.ValidateLabelSelector(match.NamespaceSelector, options, at.Child("namespaceSelector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(match.ObjectSelector, options, at.Child("objectSelector"))...)
	for i := range match.ResourceRules {
		errs = append(errs, Rule(&match.ResourceRules[i].RuleWithOperations, at.Child("resourceRules").Index(i))...)
	}
	for i := range match.ExcludeResourceRules {
		errs = append(errs, Rule(&match.ExcludeResourceRules[i].RuleWithOperations, at.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

// Rule judges operations, groups, versions and resources.
func Rule(rule *v1.RuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	wanted := func(name string, list []string) {
		at := at.Child(name)
		if len(list) == 0 {
			errs = append(errs, field.Required(at, ""))
		}
		if len(list) > 1 && slices.Contains(list, "*") {
			errs = append(errs, field.Invalid(at, list, "if '*' is present, must not specify other "+strings.TrimPrefix(strings.ToLower(name), "api")))
		}
		for i, item := range list {
			if item == "" && name != "apiGroups" {
				errs = append(errs, field.Required(at.Index(i), ""))
			}
		}
	}
	var operations []string
	known := sets.New[string]("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
	for i, operation := range rule.Operations {
		operations = append(operations, string(operation))
		if !known.Has(string(operation)) {
			errs = append(errs, field.NotSupported(at.Child("operations").Index(i), string(operation), sets.List(known)))
		}
	}
	wanted("operations", operations)
	wanted("apiGroups", rule.APIGroups)
	wanted("apiVersions", rule.APIVersions)
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(at.Child("resources"), ""))
	}
	if slices.Contains(rule.Resources, "*/*") && len(rule.Resources) > 1 {
		errs = append(errs, field.Invalid(at.Child("resources"), rule.Resources, "if '*/*' is present, must not specify other resources"))
	}
	scopes := []v1.ScopeType{v1.ClusterScope, v1.NamespacedScope, v1.AllScopes}
	if rule.Scope != nil && !slices.Contains(scopes, *rule.Scope) {
		errs = append(errs, field.NotSupported(at.Child("scope"), *rule.Scope, []string{"*", "Cluster", "Namespaced"}))
	}
	return errs
}

// ValidatingWebhooks and MutatingWebhooks judge their configurations.
func ValidatingWebhooks(configuration *v1.ValidatingWebhookConfiguration) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range configuration.Webhooks {
		w, at := &configuration.Webhooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, webhook(at, seen, w.Name, w.Rules, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds,
			w.AdmissionReviewVersions, &w.ClientConfig, w.MatchConditions)...)
	}
	return errs
}

func MutatingWebhooks(configuration *v1.MutatingWebhookConfiguration) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range configuration.Webhooks {
		w, at := &configuration.Webhooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, webhook(at, seen, w.Name, w.Rules, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds,
			w.AdmissionReviewVersions, &w.ClientConfig, w.MatchConditions)...)
	}
	return errs
}

func webhook(at *field.Path, seen sets.Set[string], name string, rules []v1.RuleWithOperations, policy *v1.FailurePolicyType,
	effects *v1.SideEffectClass, timeout *int32, versions []string, client *v1.WebhookClientConfig, when []v1.MatchCondition,
) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validation.IsFullyQualifiedName(at.Child("name"), name)...)
	if seen.Has(name) {
		errs = append(errs, field.Duplicate(at.Child("name"), name))
	}
	seen.Insert(name)
	for i := range rules {
		errs = append(errs, Rule(&rules[i], at.Child("rules").Index(i))...)
	}
	if policy != nil {
		errs = append(errs, failure(policy, at.Child("failurePolicy"))...)
	}
	switch {
	case effects == nil:
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	case *effects != v1.SideEffectClassNone && *effects != v1.SideEffectClassNoneOnDryRun:
		errs = append(errs, field.NotSupported(at.Child("sideEffects"), *effects, []string{"None", "NoneOnDryRun"}))
	}
	if timeout != nil && (*timeout < 1 || *timeout > 30) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *timeout, "the timeout value must be between 1 and 30 seconds"))
	}
	switch {
	case len(versions) == 0:
		errs = append(errs, field.Required(at.Child("admissionReviewVersions"), "must specify one of v1, v1beta1"))
	case !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1"):
		errs = append(errs, field.Invalid(at.Child("admissionReviewVersions"), versions, "must include at least one of v1, v1beta1"))
	}
	errs = append(errs, target(client, at.Child("clientConfig"))...)
	compiler := plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	return append(errs, conditions(compiler, when, options, at.Child("matchConditions"))...)
}

func target(client *v1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case client.URL != nil:
		u, err := url.Parse(*client.URL)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return field.ErrorList{field.Invalid(at.Child("url"), *client.URL, "'https' is the only allowed URL scheme; desired format: https://host[/path]")}
		}
	case client.Service.Name == "":
		return field.ErrorList{field.Required(at.Child("service", "name"), "service name is required")}
	case client.Service.Namespace == "":
		return field.ErrorList{field.Required(at.Child("service", "namespace"), "service namespace is required")}
	}
	return nil
}

func paramKind(kind *v1.ParamKind, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if kind.APIVersion == "" {
		errs = append(errs, field.Required(at.Child("apiVersion"), ""))
	} else if _, err := schema.ParseGroupVersion(kind.APIVersion); err != nil {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), kind.APIVersion, err.Error()))
	}
	if kind.Kind == "" {
		errs = append(errs, field.Required(at.Child("kind"), ""))
	}
	return errs
}

func failure(policy *v1.FailurePolicyType, at *field.Path) field.ErrorList {
	if policy == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	if *policy != v1.Fail && *policy != v1.Ignore {
		return field.ErrorList{field.NotSupported(at, *policy, []string{"Fail", "Ignore"})}
	}
	return nil
}

func asError(err *cel.Error, at *field.Path, expression string) field.ErrorList {
	var wrong *cel.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Type == cel.ErrorTypeRequired:
		return field.ErrorList{field.Required(at, wrong.Detail)}
	case wrong != nil && wrong.Type == cel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(at, expression, wrong.Detail)}
	}
	return field.ErrorList{field.InternalError(at, err)}
}

func isIdentifier(name string) bool {
	for i, r := range name {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != "" && !sets.New("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
		"function", "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while").Has(name)
}

func hasNewline(text string) bool { return strings.ContainsAny(text, "\n\r") }
