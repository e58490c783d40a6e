package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme, serializer.EnableStrict)
)

func init() { install.Install(scheme) }

// rules are what the server keeps of a version of a definition; their type has no public name.
type rules interface {
	PrepareForCreate(context.Context, runtime.Object)
	PrepareForUpdate(ctx context.Context, object, old runtime.Object)
	Validate(context.Context, runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList
	WarningsOnCreate(context.Context, runtime.Object) []string
	GetAttrs(runtime.Object) (labels.Set, fields.Set, error)
}

type served struct {
	kind    schema.GroupVersionKind
	plural  string
	schema  *structuralschema.Structural
	rules   rules
	columns []apiextensionsv1.CustomResourceColumnDefinition
	// owners keeps managedFields; it is made when it is first asked for.
	owners     *managedfields.FieldManager
	definition *apiextensionsv1.CustomResourceDefinition
}

// defined has each version of the definitions that were asked about with a name, by name and version.
var defined = map[string]map[string]*served{}

// define judges a definition, or a change of one, as its registry does; with a name it is kept, so that
// objects can be judged by it.
func define(line []byte) (answer, error) {
	var q struct {
		head
		Name       string `json:"name"`
		Definition raw    `json:"definition"`
		Old        raw    `json:"old"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	if q.Name != "" {
		delete(defined, q.Name)
	}
	object, unknown, refused := decode(q.Definition)
	if refused != nil {
		return answer{"unreadable": refused.Error()}, nil
	}
	registry := customresourcedefinition.NewStrategy(scheme)
	ctx := context.Background()
	var errs field.ErrorList
	warnings := []string{}
	if q.Old == nil {
		registry.PrepareForCreate(ctx, object)
		errs = registry.Validate(ctx, object)
		warnings = append(warnings, registry.WarningsOnCreate(ctx, object)...)
	} else {
		old, _, err := decode(q.Old)
		if err != nil {
			return nil, fmt.Errorf("old: %w", err)
		}
		registry.PrepareForCreate(ctx, old)
		object.ResourceVersion, old.ResourceVersion = "1", "1"
		registry.PrepareForUpdate(ctx, object, old)
		errs = registry.ValidateUpdate(ctx, object, old)
		warnings = append(warnings, registry.WarningsOnUpdate(ctx, object, old)...)
	}
	out := answer{"errors": report(errs), "unknown": unknown, "warnings": warnings}
	if len(errs) > 0 || q.Name == "" {
		return out, nil
	}
	versions, err := serve(object)
	if err != nil {
		return nil, err
	}
	defined[q.Name] = versions
	return out, nil
}

// decode also says which fields of the definition the server does not know.
func decode(data []byte) (*apiextensions.CustomResourceDefinition, []string, error) {
	object, _, err := codecs.UniversalDecoder(apiextensions.SchemeGroupVersion).Decode(data, nil, nil)
	unknown := []string{}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, one := range strict.Errors() {
			unknown = append(unknown, one.Error())
		}
	} else if err != nil {
		return nil, nil, err
	}
	definition, ok := object.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil, nil, fmt.Errorf("a %T is no definition", object)
	}
	return definition, unknown, nil
}

// serve prepares each version as the server does before it serves it.
func serve(definition *apiextensions.CustomResourceDefinition) (map[string]*served, error) {
	out := map[string]*served{}
	outer := &apiextensionsv1.CustomResourceDefinition{}
	if err := scheme.Convert(definition, outer, nil); err != nil {
		return nil, err
	}
	for i := range outer.Spec.Versions {
		version := &outer.Spec.Versions[i]
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, props, nil); err != nil {
			return nil, err
		}
		structural, err := structuralschema.NewStructural(props)
		if err != nil {
			return nil, err
		}
		structural = structural.DeepCopy()
		if err := defaulting.PruneDefaults(structural); err != nil {
			return nil, err
		}
		validator, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			return nil, err
		}
		var status *apiextensions.CustomResourceSubresourceStatus
		var scale *apiextensions.CustomResourceSubresourceScale
		if sub := version.Subresources; sub != nil && sub.Status != nil {
			status = &apiextensions.CustomResourceSubresourceStatus{}
		}
		if sub := version.Subresources; sub != nil && sub.Scale != nil {
			scale = &apiextensions.CustomResourceSubresourceScale{}
			if err := apiextensionsv1.Convert_v1_CustomResourceSubresourceScale_To_apiextensions_CustomResourceSubresourceScale(sub.Scale, scale, nil); err != nil {
				return nil, err
			}
		}
		kind := schema.GroupVersionKind{Group: outer.Spec.Group, Version: version.Name, Kind: outer.Spec.Names.Kind}
		out[version.Name] = &served{
			kind: kind, plural: outer.Spec.Names.Plural, schema: structural, columns: version.AdditionalPrinterColumns, definition: outer,
			rules: customresource.NewStrategy(unstructuredscheme.NewUnstructuredObjectTyper(),
				outer.Spec.Scope == apiextensionsv1.NamespaceScoped, kind, validator, nil, structural, status, scale,
				version.SelectableFields),
		}
	}
	return out, nil
}

// read makes of JSON what the server makes of it: pruned, its metadata coerced, defaulted.
func (s *served) read(data []byte) (*unstructured.Unstructured, []string, error) {
	content := map[string]any{}
	if err := read(data, &content); err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, err
	}
	kind, version := u.GetKind(), u.GetAPIVersion()
	if u.GroupVersionKind() == s.kind {
		track := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
		unknown = append(unknown, pruning.PruneWithOptions(content, s.schema, true, track)...)
		defaulting.PruneNonNullableNullsWithoutDefaults(content, s.schema)
		wrong, paths := objectmeta.CoerceWithOptions(nil, content, s.schema, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
		if wrong != nil {
			return nil, nil, wrong
		}
		unknown = append(unknown, paths...)
	}
	u.SetKind(kind)
	u.SetAPIVersion(version)
	if found {
		if err := objectmeta.SetObjectMeta(content, meta); err != nil {
			return nil, nil, err
		}
	}
	defaulting.Default(content, s.schema)
	return u, unknown, nil
}

// judgeObject judges an object by a definition that was kept, and says what is stored and shown of it.
func judgeObject(line []byte) (answer, error) {
	var q struct {
		head
		Definition string `json:"definition"`
		Version    string `json:"version"`
		Object     raw    `json:"object"`
		Old        raw    `json:"old"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	s, ok := defined[q.Definition][q.Version]
	if !ok {
		return nil, fmt.Errorf("no definition %q with version %q is kept", q.Definition, q.Version)
	}
	object, unknown, err := s.read(q.Object)
	if err != nil {
		return answer{"unreadable": err.Error()}, nil
	}
	ctx := context.Background()
	var errs field.ErrorList
	if q.Old == nil {
		s.rules.PrepareForCreate(ctx, object)
		// What the server fills in before it validates.
		object.SetUID("00000000-0000-0000-0000-000000000000")
		object.SetCreationTimestamp(metav1.NewTime(time.Unix(0, 0)))
		errs = s.rules.Validate(ctx, object)
	} else {
		old, _, err := s.read(q.Old)
		if err != nil {
			return nil, fmt.Errorf("old: %w", err)
		}
		object.SetResourceVersion("1")
		old.SetResourceVersion("1")
		s.rules.PrepareForUpdate(ctx, object, old)
		errs = s.rules.ValidateUpdate(ctx, object, old)
	}
	out := answer{"errors": report(errs), "unknown": append([]string{}, unknown...)}
	if len(errs) > 0 {
		return out, nil
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "uid")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "resourceVersion")
	out["object"] = object.Object
	_, selectable, err := s.rules.GetAttrs(object)
	if err != nil {
		return nil, err
	}
	out["fields"] = selectable
	out["warnings"] = append([]string{}, s.rules.WarningsOnCreate(ctx, object)...)
	// Where a path cannot be read, this column and those after it are left out.
	table, _ := tableconvertor.New(s.columns)
	rows, err := table.ConvertToTable(ctx, object, &metav1.TableOptions{})
	if err != nil {
		return nil, err
	}
	out["cells"] = rows.Rows[0].Cells
	return out, nil
}
