package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// namespaces stay until their finalizers are gone, with the phase Terminating.
type namespaces struct{ shelf }

func (n namespaces) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	object, err := n.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	namespace := object.(*corev1.Namespace)
	if len(namespace.Spec.Finalizers) == 0 {
		return n.Store.Delete(ctx, name, validate, options)
	}
	if namespace.DeletionTimestamp != nil {
		return namespace, false, nil
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != namespace.UID ||
		p.ResourceVersion != nil && *p.ResourceVersion != namespace.ResourceVersion) {
		return nil, false, apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, name, nil)
	}
	if err := validate(ctx, namespace); err != nil {
		return nil, false, err
	}
	ending := namespace.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	ending.DeletionGracePeriodSeconds = new(int64)
	ending.Status.Phase = corev1.NamespaceTerminating
	if len(options.DryRun) > 0 {
		return ending, false, nil
	}
	key, err := n.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	out := n.New()
	err = n.Storage.Storage.GuaranteedUpdate(ctx, key, out, false, nil,
		func(existing runtime.Object, _ storageMeta) (runtime.Object, *uint64, error) {
			current := existing.(*corev1.Namespace)
			current.DeletionTimestamp = ending.DeletionTimestamp
			current.DeletionGracePeriodSeconds = ending.DeletionGracePeriodSeconds
			current.Status.Phase = corev1.NamespaceTerminating
			return current, nil, nil
		}, nil)
	return out, false, err
}

// emptyNamespaces is Kubernetes' namespace controller in small: what is in a namespace that ends is
// deleted, whatever its kind, and then the namespace.
func emptyNamespaces(ctx context.Context, client kubernetes.Interface, any dynamic.Interface) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		all, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Terminating"})
		if err != nil {
			return
		}
		for i := range all.Items {
			if left, err := empty(ctx, client, any, all.Items[i].Name); err == nil && !left {
				ended := all.Items[i].DeepCopy()
				ended.Spec.Finalizers = nil
				_, _ = client.CoreV1().Namespaces().Finalize(ctx, ended, metav1.UpdateOptions{})
			}
		}
	}, 200*time.Millisecond)
}

// empty deletes what is in the namespace, and says whether anything is left.
func empty(ctx context.Context, client kubernetes.Interface, any dynamic.Interface, namespace string) (bool, error) {
	lists, err := client.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		return true, err
	}
	left := false
	wanted := discovery.SupportsAllVerbs{Verbs: []string{"list", "deletecollection"}}
	for _, list := range discovery.FilteredBy(wanted, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return true, err
		}
		for _, resource := range list.APIResources {
			objects := any.Resource(gv.WithResource(resource.Name)).Namespace(namespace)
			if err := objects.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return true, err
			}
			rest, err := objects.List(ctx, metav1.ListOptions{})
			if err != nil {
				return true, err
			}
			left = left || len(rest.Items) > 0
		}
	}
	return left, nil
}
