package main

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"laneway/policies"
)

// addDefaults fills in what admission and authorization rely on, and what clients most often look at.
// Kubernetes' other defaults are not among the libraries.
func addDefaults(scheme *runtime.Scheme) error {
	defaulting(scheme, policies.DefaultValidating)
	defaulting(scheme, policies.DefaultMutating)
	defaulting(scheme, policies.DefaultValidatingBinding)
	defaulting(scheme, policies.DefaultMutatingBinding)
	defaulting(scheme, policies.DefaultValidatingWebhooks)
	defaulting(scheme, policies.DefaultMutatingWebhooks)
	defaulting(scheme, func(o *rbacv1.RoleBinding) { fillBinding(&o.RoleRef, o.Subjects) })
	defaulting(scheme, func(o *rbacv1.ClusterRoleBinding) { fillBinding(&o.RoleRef, o.Subjects) })
	defaulting(scheme, func(o *corev1.Namespace) {
		if o.Name != "" {
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			o.Labels[corev1.LabelMetadataName] = o.Name
		}
	})
	defaulting(scheme, func(o *corev1.Secret) {
		if o.Type == "" {
			o.Type = corev1.SecretTypeOpaque
		}
		for key, value := range o.StringData {
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	})
	return nil
}

func defaulting[T any](scheme *runtime.Scheme, set func(*T)) {
	object, ok := any(new(T)).(runtime.Object)
	if !ok {
		panic("not an object")
	}
	scheme.AddTypeDefaultingFunc(object, func(object any) { set(object.(*T)) })
}

func fillBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if role.APIGroup == "" {
		role.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		if subjects[i].APIGroup == "" && subjects[i].Kind != rbacv1.ServiceAccountKind {
			subjects[i].APIGroup = rbacv1.GroupName
		}
	}
}
