package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apihelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"slices"
	"strings"
)

type storageMeta = storage.ResponseMeta

// guess is the resource of a kind, in the plural and in the singular.
func guess(kind string) (string, string) {
	many, one := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return many.Resource, one.Resource
}

// serviceResolver finds webhooks that are named by a Service.
type serviceResolver struct{ services corelisters.ServiceLister }

func (s serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return proxy.ResolveCluster(s.services, namespace, name, port)
}

// excluded are the resources that no policy and no webhook may intercept, as in Kubernetes.
type excluded struct{}

func (excluded) Initialize(plugin admission.Interface) {
	var resources []schema.GroupResource
	for _, kind := range reviews {
		many, _ := guess(kind.Kind)
		resources = append(resources, schema.GroupResource{Group: kind.Group, Resource: many})
	}
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(resources)
	}
}

// installDiscovery serves /apis, which Kubernetes leaves to its aggregator.
func installDiscovery(server *apiextensions.CustomResourceDefinitions) {
	generic := server.GenericAPIServer
	root := discoveryendpoint.WrapAggregatedDiscoveryToHandler(generic.DiscoveryGroupManager,
		generic.AggregatedDiscoveryGroupManager, generic.AggregatedDiscoveryGroupManager)
	generic.Handler.GoRestfulContainer.Add(root.GenerateWebService(genericapiserver.APIGroupPrefix, metav1.APIGroupList{}))
	definitions := server.Informers.Apiextensions().V1().CustomResourceDefinitions()
	builtin := map[string]bool{apiextensionsv1.GroupName: true}
	for _, k := range kinds {
		builtin[k.group.Group] = true
	}
	known := map[string]bool{}
	update := func() {
		all, _ := definitions.Lister().List(labels.Everything())
		versions := map[string][]string{}
		for _, definition := range all {
			group := definition.Spec.Group
			if builtin[group] || !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
				continue
			}
			for _, v := range definition.Spec.Versions {
				if v.Served && !slices.Contains(versions[group], v.Name) {
					versions[group] = append(versions[group], v.Name)
				}
			}
		}
		for group := range known {
			if versions[group] == nil {
				generic.DiscoveryGroupManager.RemoveGroup(group)
				delete(known, group)
			}
		}
		for name, list := range versions {
			slices.SortFunc(list, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
			group := metav1.APIGroup{Name: name}
			for _, v := range list {
				group.Versions = append(group.Versions,
					metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
			}
			group.PreferredVersion = group.Versions[0]
			generic.DiscoveryGroupManager.AddGroup(group)
			known[name] = true
		}
	}
	generic.AddPostStartHookOrDie("laneway-discovery", func(hook genericapiserver.PostStartHookContext) error {
		changed := make(chan struct{}, 1)
		signal := func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		_, err := definitions.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
		})
		go func() {
			for {
				select {
				case <-changed:
					update()
				case <-hook.Done():
					return
				}
			}
		}()
		return err
	})
}

// addHooks creates what a cluster has from its first moment, and runs the one controller.
func addHooks(server *genericapiserver.GenericAPIServer, loopback *restclient.Config) error {
	return server.AddPostStartHook("laneway-bootstrap", func(hook genericapiserver.PostStartHookContext) error {
		client, err := kubernetes.NewForConfig(loopback)
		if err != nil {
			return err
		}
		anything, err := dynamic.NewForConfig(loopback)
		if err != nil {
			return err
		}
		go emptyNamespaces(hook, client, anything)
		return wait.PollUntilContextTimeout(hook, 100*time.Millisecond, 30*time.Second, true,
			func(ctx context.Context) (bool, error) {
				return bootstrap(ctx, client) == nil, nil
			})
	})
}

func bootstrap(ctx context.Context, client kubernetes.Interface) error {
	for _, name := range []string{"kube-system", "kube-public", "kube-node-lease", "default"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); unexpected(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	for name, role := range map[string]struct {
		rule   rbacv1.PolicyRule
		groups []string
	}{
		"cluster-admin": {
			rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			[]string{user.SystemPrivilegedGroup},
		},
		"system:discovery": {
			rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: strings.Fields(
				"/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")},
			[]string{user.AllAuthenticated},
		},
		"system:public-info-viewer": {
			rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: strings.Fields(
				"/healthz /livez /readyz /version /version/")},
			[]string{user.AllAuthenticated, user.AllUnauthenticated},
		},
		"system:basic-user": {
			rbacv1.PolicyRule{
				Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io", "authentication.k8s.io"},
				Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"},
			},
			[]string{user.AllAuthenticated},
		},
	} {
		about := metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}
		one := &rbacv1.ClusterRole{ObjectMeta: about, Rules: []rbacv1.PolicyRule{role.rule}}
		if name == "cluster-admin" {
			one.Rules = append(one.Rules, rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}})
		}
		if _, err := client.RbacV1().ClusterRoles().Create(ctx, one, metav1.CreateOptions{}); unexpected(err) {
			return err
		}
		bound := &rbacv1.ClusterRoleBinding{ObjectMeta: about, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}}
		for _, group := range role.groups {
			bound.Subjects = append(bound.Subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: group})
		}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, bound, metav1.CreateOptions{}); unexpected(err) {
			return err
		}
	}
	flow := client.FlowcontrolV1()
	for _, level := range slices.Concat(flowcontrol.MandatoryPriorityLevelConfigurations, flowcontrol.SuggestedPriorityLevelConfigurations) {
		if _, err := flow.PriorityLevelConfigurations().Create(ctx, level.DeepCopy(), metav1.CreateOptions{}); unexpected(err) {
			return err
		}
	}
	for _, schema := range slices.Concat(flowcontrol.MandatoryFlowSchemas, flowcontrol.SuggestedFlowSchemas) {
		if _, err := flow.FlowSchemas().Create(ctx, schema.DeepCopy(), metav1.CreateOptions{}); unexpected(err) {
			return err
		}
	}
	return nil
}

func unexpected(err error) bool { return err != nil && !apierrors.IsAlreadyExists(err) }
