package main

import (
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch" // version 4, as in Kubernetes
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// patch applies a JSON patch ("json"), a merge patch ("merge") or, to an object of a built-in kind, a
// strategic merge patch ("strategic") to a document.
func patch(line []byte) (answer, error) {
	var q struct {
		head
		How      string `json:"how"`
		Document raw    `json:"document"`
		Patch    raw    `json:"patch"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	var out []byte
	var err error
	switch q.How {
	case "merge":
		out, err = jsonpatch.MergePatch(q.Document, q.Patch)
	case "strategic":
		var kind schema.GroupVersionKind
		if kind, err = kindOf(q.Document); err != nil {
			return nil, err
		}
		object, unknown := clientscheme.Scheme.New(kind)
		if unknown != nil {
			return nil, unknown
		}
		out, err = strategicpatch.StrategicMergePatch(q.Document, q.Patch, object)
	default:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(q.Patch); err == nil {
			out, err = operations.Apply(q.Document)
		}
	}
	if err != nil {
		return answer{"refused": err.Error()}, nil
	}
	return answer{"document": raw(out)}, nil
}

func kindOf(document raw) (schema.GroupVersionKind, error) {
	head := metav1.TypeMeta{}
	err := read(document, &head)
	return head.GroupVersionKind(), err
}

// apply applies an object for a manager, or (with "update") writes one in another way, and says what
// becomes of the live object and of its managedFields.
func apply(line []byte) (answer, error) {
	var q struct {
		head
		Definition  string `json:"definition"`
		Version     string `json:"version"`
		Subresource string `json:"subresource"`
		Live        raw    `json:"live"`
		Object      raw    `json:"object"`
		Manager     string `json:"manager"`
		Force       bool   `json:"force"`
		Update      bool   `json:"update"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	s, ok := defined[q.Definition][q.Version]
	if !ok {
		return nil, fmt.Errorf("no definition %q with version %q is kept", q.Definition, q.Version)
	}
	if err := s.manage(); err != nil {
		return nil, err
	}
	live, object := anew(s.kind), anew(s.kind)
	if q.Live != nil {
		if err := read(q.Live, &live.Object); err != nil {
			return nil, err
		}
	}
	if err := read(q.Object, &object.Object); err != nil {
		return nil, err
	}
	if q.Update {
		return answer{"object": s.owners.UpdateNoErrors(live, object, q.Manager)}, nil
	}
	merged, err := s.owners.Apply(live, object, q.Manager, q.Force)
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonConflict:
		return answer{"conflicts": status.Status().Details.Causes}, nil
	case err != nil:
		return answer{"refused": err.Error()}, nil
	}
	return answer{"object": merged}, nil
}

// manage makes what keeps the managedFields of a version, as the server does, but for defaults.
func (s *served) manage() error {
	if s.owners != nil {
		return nil
	}
	spec, err := builder.BuildOpenAPIV3(s.definition, s.kind.Version, builder.Options{})
	if err != nil {
		return err
	}
	types, err := managedfields.NewTypeConverter(spec.Components.Schemas, false)
	if err != nil {
		return err
	}
	s.owners, err = managedfields.NewDefaultCRDFieldManager(types, unversioned{}, unversioned{}, unversioned{}, s.kind, s.kind.GroupVersion(), "", nil)
	return err
}

func anew(kind schema.GroupVersionKind) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out
}

// unversioned makes objects of one version without defaults.
type unversioned struct{}

func (unversioned) New(kind schema.GroupVersionKind) (runtime.Object, error) { return anew(kind), nil }

func (unversioned) Default(runtime.Object) {}

func (unversioned) Convert(in, out, context any) error { return errors.New("nothing is converted") }

func (unversioned) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (unversioned) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
