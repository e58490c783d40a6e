package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
)

// bindingREST is the subresource `binding` of Pods, by which a scheduler puts a Pod on a node, once.
type bindingREST struct{ pods *genericregistry.Store }

func binding(pods *genericregistry.Store, k kind) bindingREST {
	other := *pods
	other.UpdateStrategy = strategy{scheme, names.SimpleNameGenerator, k, "binding"}
	return bindingREST{&other}
}

func (bindingREST) New() runtime.Object { return &corev1.Binding{} }
func (bindingREST) Destroy()            {}

func (b bindingREST) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	wanted := object.(*corev1.Binding)
	if wanted.Target.Name == "" || (wanted.Target.Kind != "" && wanted.Target.Kind != "Node") {
		return nil, apierrors.NewBadRequest("target must be a Node with a name")
	}
	if err := validate(ctx, wanted.DeepCopyObject()); err != nil {
		return nil, err
	}
	assign := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		pod := old.DeepCopyObject().(*corev1.Pod)
		refused := ""
		switch {
		case wanted.UID != "" && wanted.UID != pod.UID:
			refused = fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s)", wanted.UID, pod.UID)
		case pod.DeletionTimestamp != nil:
			refused = fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", name)
		case pod.Spec.NodeName != "":
			refused = fmt.Sprintf("pod %s is already assigned to node %q", name, pod.Spec.NodeName)
		}
		if refused != "" {
			return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), name, fmt.Errorf("%s", refused))
		}
		pod.Spec.NodeName = wanted.Target.Name
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
		return pod, nil
	}
	_, _, err := b.pods.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, assign), rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
}
