package main

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"laneway/policies"
)

// strategy is how objects of a kind are created and changed: as a whole, or only a part.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind kind
	part string // "status", "finalizers" or "binding", if only that is written
}

func (s strategy) NamespaceScoped() bool                                     { return s.kind.traits&namespaced != 0 }
func (s strategy) AllowCreateOnUpdate() bool                                 { return s.kind.traits&upsert != 0 }
func (s strategy) AllowUnconditionalUpdate() bool                            { return s.kind.traits&guarded == 0 }
func (s strategy) Canonicalize(runtime.Object)                               {}
func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (s strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.kind.traits&status == 0 {
		return nil
	}
	fixed := "status"
	if s.part == "status" {
		fixed = "spec"
	}
	version := fieldpath.APIVersion(s.kind.group.String())
	return map[fieldpath.APIVersion]*fieldpath.Set{version: fieldpath.NewSet(fieldpath.MakePathOrDie(fixed))}
}

func part(object runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}

func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	accessor, _ := meta.Accessor(object)
	if s.kind.traits&counted != 0 {
		accessor.SetGeneration(1)
	}
	switch object := object.(type) {
	case *corev1.Namespace:
		object.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		object.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	case *corev1.Pod:
		object.Status = corev1.PodStatus{Phase: corev1.PodPending}
	case *corev1.Node:
	default:
		if s.kind.traits&status != 0 {
			part(object, "Status").SetZero()
		}
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	now, _ := meta.Accessor(object)
	before, _ := meta.Accessor(old)
	if s.part == "status" {
		written := reflect.New(part(object, "Status").Type()).Elem()
		written.Set(part(object, "Status"))
		managed := now.GetManagedFields()
		reflect.ValueOf(object).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
		part(object, "Status").Set(written)
		version := now.GetResourceVersion()
		now.SetManagedFields(managed)
		now.SetResourceVersion(version)
		return
	}
	if s.kind.traits&status != 0 && s.part != "binding" {
		part(object, "Status").Set(part(old.DeepCopyObject(), "Status"))
	}
	if namespace, ok := object.(*corev1.Namespace); ok && s.part != "finalizers" {
		namespace.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
	}
	if s.kind.traits&counted == 0 {
		return
	}
	now.SetGeneration(before.GetGeneration())
	for i := range reflect.TypeOf(object).Elem().NumField() {
		name := reflect.TypeOf(object).Elem().Field(i).Name
		if name == "TypeMeta" || name == "ObjectMeta" || name == "Status" {
			continue
		}
		if !equality.Semantic.DeepEqual(part(object, name).Interface(), part(old, name).Interface()) {
			now.SetGeneration(before.GetGeneration() + 1)
			return
		}
	}
}

// Validate knows how objects may be named, and the rules of what the server itself obeys: a policy that
// does not compile would refuse every request that it is about.
func (s strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	accessor, _ := meta.Accessor(object)
	name := validation.NameIsDNSSubdomain
	switch {
	case s.kind.group == rbacv1.SchemeGroupVersion:
		name = path.ValidatePathSegmentName
	case s.kind.name == "Namespace":
		name = validation.NameIsDNSLabel
	case s.kind.name == "Service":
		name = validation.NameIsDNS1035Label
	}
	errs := validation.ValidateObjectMetaAccessor(accessor, s.NamespaceScoped(), name, field.NewPath("metadata"))
	return append(errs, s.validate(object)...)
}

func (s strategy) validate(object runtime.Object) field.ErrorList {
	switch object := object.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return policies.Validating(object)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return policies.ValidatingWebhooks(object)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return policies.MutatingWebhooks(object)
	}
	return nil
}

func (s strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	now, _ := meta.Accessor(object)
	before, _ := meta.Accessor(old)
	return append(validation.ValidateObjectMetaAccessorUpdate(now, before, field.NewPath("metadata")), s.validate(object)...)
}

// CheckGracefulDelete gives a Pod on a node the time that it asks for.
func (s strategy) CheckGracefulDelete(_ context.Context, object runtime.Object, options *metav1.DeleteOptions) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return false
	}
	period := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		period = 0
	}
	options.GracePeriodSeconds = &period
	return true
}

// fields are those that a field selector may name.
func (k kind) fields(object runtime.Object) fields.Set {
	switch o := object.(type) {
	case *corev1.Pod:
		return fields.Set{
			"spec.nodeName": o.Spec.NodeName, "spec.restartPolicy": string(o.Spec.RestartPolicy),
			"spec.schedulerName": o.Spec.SchedulerName, "spec.serviceAccountName": o.Spec.ServiceAccountName,
			"spec.hostNetwork": strconv.FormatBool(o.Spec.HostNetwork), "status.phase": string(o.Status.Phase),
			"status.podIP": o.Status.PodIP, "status.nominatedNodeName": o.Status.NominatedNodeName,
		}
	case *corev1.Node:
		return fields.Set{"spec.unschedulable": fmt.Sprint(o.Spec.Unschedulable)}
	case *corev1.Secret:
		return fields.Set{"type": string(o.Type)}
	case *corev1.Namespace:
		return fields.Set{"status.phase": string(o.Status.Phase)}
	case *corev1.Event:
		source := o.Source.Component
		if source == "" {
			source = o.ReportingController
		}
		return fields.Set{
			"involvedObject.kind": o.InvolvedObject.Kind, "involvedObject.namespace": o.InvolvedObject.Namespace,
			"involvedObject.name": o.InvolvedObject.Name, "involvedObject.uid": string(o.InvolvedObject.UID),
			"involvedObject.apiVersion":      o.InvolvedObject.APIVersion,
			"involvedObject.resourceVersion": o.InvolvedObject.ResourceVersion,
			"involvedObject.fieldPath":       o.InvolvedObject.FieldPath,
			"reason":                         o.Reason, "reportingComponent": o.ReportingController,
			"source": source, "type": o.Type,
		}
	case *resourcev1.ResourceSlice:
		node := ""
		if o.Spec.NodeName != nil {
			node = *o.Spec.NodeName
		}
		return fields.Set{resourcev1.ResourceSliceSelectorNodeName: node, resourcev1.ResourceSliceSelectorDriver: o.Spec.Driver}
	case *certificatesv1.CertificateSigningRequest:
		return fields.Set{"spec.signerName": o.Spec.SignerName}
	}
	return fields.Set{}
}

func (k kind) attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	mine := &metav1.ObjectMeta{Name: accessor.GetName(), Namespace: accessor.GetNamespace()}
	set := generic.ObjectMetaFieldsSet(mine, k.traits&namespaced != 0)
	return accessor.GetLabels(), generic.MergeFieldsSets(set, k.fields(object)), nil
}
