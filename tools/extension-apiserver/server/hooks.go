package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
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
	definitions := server.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister()
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all, _ := definitions.List(labels.Everything())
		list := &metav1.APIGroupList{Groups: groups(all)}
		list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"})
		responsewriters.WriteRawJSON(http.StatusOK, list, w)
	})
	root := discoveryendpoint.WrapAggregatedDiscoveryToHandler(plain,
		generic.AggregatedDiscoveryGroupManager, generic.AggregatedDiscoveryGroupManager)
	generic.Handler.GoRestfulContainer.Add(root.GenerateWebService(genericapiserver.APIGroupPrefix, metav1.APIGroupList{}))
}

// groups are all but the core group, with their versions, the newest first.
func groups(definitions []*apiextensionsv1.CustomResourceDefinition) []metav1.APIGroup {
	versions := map[string][]string{apiextensionsv1.GroupName: {"v1"}}
	add := func(group, version string) {
		if group != "" && !slices.Contains(versions[group], version) {
			versions[group] = append(versions[group], version)
		}
	}
	for _, k := range kinds {
		add(k.group.Group, k.group.Version)
	}
	for _, review := range reviews {
		add(review.Group, review.Version)
	}
	for _, definition := range definitions {
		if !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			continue
		}
		for _, v := range definition.Spec.Versions {
			if v.Served {
				add(definition.Spec.Group, v.Name)
			}
		}
	}
	var out []metav1.APIGroup
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		group := metav1.APIGroup{Name: name}
		slices.SortFunc(versions[name], func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
		for _, v := range versions[name] {
			group.Versions = append(group.Versions,
				metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		group.PreferredVersion = group.Versions[0]
		out = append(out, group)
	}
	return out
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
