package main

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	builtin "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"

	generated "laneway/openapi"
)

// schemas are those of the built-in kinds, and of the definitions that a question names.
type schemas struct {
	builtin  *resolver.DefinitionsSchemaResolver
	metadata spec.Schema
	custom   map[schema.GroupVersionKind]*served
}

func (s *schemas) ResolveSchema(gvk schema.GroupVersionKind) (*spec.Schema, error) {
	version, ok := s.custom[gvk]
	if !ok {
		return s.builtin.ResolveSchema(gvk)
	}
	out := version.schema.ToKubeOpenAPI()
	if out.Properties == nil {
		out.Properties = map[string]spec.Schema{}
	}
	out.Properties["apiVersion"] = *spec.StringProperty()
	out.Properties["kind"] = *spec.StringProperty()
	out.Properties["metadata"] = s.metadata
	return out, nil
}

// Making the schemas of all built-in kinds takes a moment, which most tests do not need.
var builtinSchemas *resolver.DefinitionsSchemaResolver

// typeWarnings are what Kubernetes writes into a policy's status: fields that a type does not have.
func typeWarnings(policy *admissionregistrationv1.ValidatingAdmissionPolicy, names []string) ([]answer, error) {
	if builtinSchemas == nil {
		builtinSchemas = resolver.NewDefinitionsSchemaResolver(generated.GetOpenAPIDefinitions, builtin.Scheme)
	}
	known := &schemas{builtin: builtinSchemas, custom: map[schema.GroupVersionKind]*served{}}
	example, err := known.builtin.ResolveSchema(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if err != nil {
		return nil, err
	}
	known.metadata = example.Properties["metadata"]
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range builtin.Scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	for _, name := range names {
		if defined[name] == nil {
			return nil, fmt.Errorf("no definition %q is kept", name)
		}
		for _, version := range defined[name] {
			known.custom[version.kind] = version
			plural := version.kind.GroupVersion().WithResource(version.plural)
			mapper.AddSpecific(version.kind, plural, plural, meta.RESTScopeNamespace)
		}
	}
	checker := &validating.TypeChecker{SchemaResolver: known, RestMapper: mapper}
	out := []answer{}
	for _, warning := range checker.Check(policy) {
		out = append(out, answer{"field": warning.FieldRef, "warning": warning.Warning})
	}
	return out, nil
}
