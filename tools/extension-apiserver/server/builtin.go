package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type traits uint

const (
	namespaced traits = 1 << iota
	status            // has a subresource of that name, and only that writes it
	counted           // metadata.generation counts the changes of the spec
	upsert            // PUT creates what is not there
	guarded           // PUT needs a resourceVersion
)

// kind is a built-in kind. Its objects are decoded, kept, merged, watched, selected and admitted by the
// libraries. Of Kubernetes' own rules only those are here that defaults.go and rules.go know.
type kind struct {
	group  schema.GroupVersion
	name   string
	traits traits
	short  string
}

var kinds = []kind{
	{corev1.SchemeGroupVersion, "Namespace", status, "ns"},
	{corev1.SchemeGroupVersion, "Node", status, "no"},
	{corev1.SchemeGroupVersion, "Pod", namespaced | status | counted, "po"},
	{corev1.SchemeGroupVersion, "Secret", namespaced, ""},
	{corev1.SchemeGroupVersion, "ConfigMap", namespaced, "cm"},
	{corev1.SchemeGroupVersion, "Service", namespaced | status, "svc"},
	{corev1.SchemeGroupVersion, "ServiceAccount", namespaced, "sa"},
	{corev1.SchemeGroupVersion, "Endpoints", namespaced | upsert, "ep"},
	{corev1.SchemeGroupVersion, "Event", namespaced | upsert, "ev"},
	{corev1.SchemeGroupVersion, "PersistentVolume", status, "pv"},
	{corev1.SchemeGroupVersion, "PersistentVolumeClaim", namespaced | status, "pvc"},
	{corev1.SchemeGroupVersion, "ResourceQuota", namespaced | status, "quota"},
	{corev1.SchemeGroupVersion, "LimitRange", namespaced, "limits"},
	{appsv1.SchemeGroupVersion, "Deployment", namespaced | status | counted, "deploy"},
	{appsv1.SchemeGroupVersion, "DaemonSet", namespaced | status | counted, "ds"},
	{appsv1.SchemeGroupVersion, "StatefulSet", namespaced | status | counted, "sts"},
	{appsv1.SchemeGroupVersion, "ReplicaSet", namespaced | status | counted, "rs"},
	{appsv1.SchemeGroupVersion, "ControllerRevision", namespaced, ""},
	{batchv1.SchemeGroupVersion, "Job", namespaced | status | counted, ""},
	{batchv1.SchemeGroupVersion, "CronJob", namespaced | status | counted, "cj"},
	{coordinationv1.SchemeGroupVersion, "Lease", namespaced | upsert | guarded, ""},
	{rbacv1.SchemeGroupVersion, "Role", namespaced | upsert, ""},
	{rbacv1.SchemeGroupVersion, "RoleBinding", namespaced | upsert, ""},
	{rbacv1.SchemeGroupVersion, "ClusterRole", upsert, ""},
	{rbacv1.SchemeGroupVersion, "ClusterRoleBinding", upsert, ""},
	{resourcev1.SchemeGroupVersion, "DeviceClass", counted, ""},
	{resourcev1.SchemeGroupVersion, "ResourceClaim", namespaced | status, ""},
	{resourcev1.SchemeGroupVersion, "ResourceClaimTemplate", namespaced, ""},
	{resourcev1.SchemeGroupVersion, "ResourceSlice", counted, ""},
	{admissionregistrationv1.SchemeGroupVersion, "ValidatingWebhookConfiguration", counted | guarded, ""},
	{admissionregistrationv1.SchemeGroupVersion, "MutatingWebhookConfiguration", counted | guarded, ""},
	{admissionregistrationv1.SchemeGroupVersion, "ValidatingAdmissionPolicy", status | counted | guarded, ""},
	{admissionregistrationv1.SchemeGroupVersion, "ValidatingAdmissionPolicyBinding", counted | guarded, ""},
	{admissionregistrationv1.SchemeGroupVersion, "MutatingAdmissionPolicy", counted | guarded, ""},
	{admissionregistrationv1.SchemeGroupVersion, "MutatingAdmissionPolicyBinding", counted | guarded, ""},
	{policyv1.SchemeGroupVersion, "PodDisruptionBudget", namespaced | status | counted | guarded, "pdb"},
	{schedulingv1.SchemeGroupVersion, "PriorityClass", counted, "pc"},
	{storagev1.SchemeGroupVersion, "StorageClass", 0, "sc"},
	{storagev1.SchemeGroupVersion, "CSINode", 0, ""},
	{storagev1.SchemeGroupVersion, "CSIDriver", 0, ""},
	{networkingv1.SchemeGroupVersion, "NetworkPolicy", namespaced | counted, "netpol"},
	{networkingv1.SchemeGroupVersion, "Ingress", namespaced | status | counted, "ing"},
	{discoveryv1.SchemeGroupVersion, "EndpointSlice", namespaced | counted, ""},
	{certificatesv1.SchemeGroupVersion, "CertificateSigningRequest", status, "csr"},
	{flowcontrolv1.SchemeGroupVersion, "FlowSchema", status | counted, ""},
	{flowcontrolv1.SchemeGroupVersion, "PriorityLevelConfiguration", status | counted, ""},
}

// reviews are created only, and nowhere kept (reviews.go).
var reviews = []schema.GroupVersionKind{
	authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
	authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"),
	authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
	authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
	authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
	authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
}

// Each type is registered a second time as the internal version, which the libraries convert to and
// from: Kubernetes' internal types are not among the libraries.
var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme,
		rbacv1.AddToScheme, resourcev1.AddToScheme, admissionregistrationv1.AddToScheme,
		policyv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
		networkingv1.AddToScheme, discoveryv1.AddToScheme, certificatesv1.AddToScheme,
		flowcontrolv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		addDefaults,
	} {
		utilruntime.Must(add(scheme))
	}
	internal := func(kind schema.GroupVersionKind) {
		gv := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
		scheme.AddKnownTypeWithName(gv.WithKind(kind.Kind), newObject(kind))
	}
	for _, k := range kinds {
		internal(k.group.WithKind(k.name))
		internal(k.group.WithKind(k.name + "List"))
		utilruntime.Must(scheme.AddFieldLabelConversionFunc(k.group.WithKind(k.name), k.convertLabel))
	}
	for _, review := range reviews {
		internal(review)
	}
	internal(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	internal(corev1.SchemeGroupVersion.WithKind("Binding"))
}

func newObject(kind schema.GroupVersionKind) runtime.Object {
	object, err := scheme.New(kind)
	utilruntime.Must(err)
	return object
}

func (k kind) new() runtime.Object { return newObject(k.group.WithKind(k.name)) }

func (k kind) resources() (plural, singular schema.GroupResource) {
	many, one := meta.UnsafeGuessKindToResource(k.group.WithKind(k.name))
	return many.GroupResource(), one.GroupResource()
}

// convertLabel refuses field selectors that the kind does not have.
func (k kind) convertLabel(label, value string) (string, string, error) {
	own := k.fields(k.new())
	_, known := own[label]
	switch {
	case known:
		return label, value, nil
	case len(own) > 0 && label != "metadata.name" && label != "metadata.namespace":
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
	return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
}

// shelf is what is served for a kind; drawer for its status.
type shelf struct {
	*genericregistry.Store
	kind kind
}

func (s shelf) ShortNames() []string { return strings.Fields(s.kind.short) }

type drawer struct {
	store *genericregistry.Store
	fixed map[fieldpath.APIVersion]*fieldpath.Set
}

func (d drawer) New() runtime.Object { return d.store.New() }
func (d drawer) Destroy()            {}
func (d drawer) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return d.store.Get(ctx, name, options)
}

func (d drawer) Update(ctx context.Context, name string, object rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return d.store.Update(ctx, name, object, create, update, false, options)
}

func (d drawer) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set { return d.fixed }

func (d drawer) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return d.store.ConvertToTable(ctx, object, options)
}

func (k kind) store(getter generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	plural, singular := k.resources()
	rules := strategy{scheme, names.SimpleNameGenerator, k, ""}
	store := &genericregistry.Store{
		NewFunc:                   k.new,
		NewListFunc:               func() runtime.Object { return newObject(k.group.WithKind(k.name + "List")) },
		DefaultQualifiedResource:  plural,
		SingularQualifiedResource: singular,
		CreateStrategy:            rules,
		UpdateStrategy:            rules,
		DeleteStrategy:            rules,
		ResetFieldsStrategy:       rules,
		TableConvertor:            rest.NewDefaultTableConvertor(plural),
	}
	if k.name == "Namespace" {
		store.ShouldDeleteDuringUpdate = func(ctx context.Context, key string, object, existing runtime.Object) bool {
			return len(object.(*corev1.Namespace).Spec.Finalizers) == 0 &&
				genericregistry.ShouldDeleteDuringUpdate(ctx, key, object, existing)
		}
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: k.attributes})
}

// add puts what serves the kind into the resources of its group.
func (k kind) add(to map[string]rest.Storage, getter generic.RESTOptionsGetter) error {
	store, err := k.store(getter)
	if err != nil {
		return err
	}
	plural, _ := k.resources()
	to[plural.Resource] = shelf{store, k}
	if k.name == "Namespace" {
		to[plural.Resource] = namespaces{shelf{store, k}}
		to[plural.Resource+"/finalize"] = variant(store, strategy{scheme, names.SimpleNameGenerator, k, "finalizers"}, nil)
	}
	if k.name == "Pod" {
		to[plural.Resource+"/binding"] = binding(store, k)
	}
	if k.traits&status != 0 {
		rules := strategy{scheme, names.SimpleNameGenerator, k, "status"}
		to[plural.Resource+"/status"] = variant(store, rules, rules.GetResetFields())
	}
	return nil
}

// variant is the same store under other rules.
func variant(store *genericregistry.Store, rules strategy, fixed map[fieldpath.APIVersion]*fieldpath.Set) drawer {
	other := *store
	other.UpdateStrategy = rules
	other.ResetFieldsStrategy = rules
	return drawer{&other, fixed}
}

// builtinRESTOptions are etcd's, with objects written as their one version.
func builtinRESTOptions(etcd genericoptions.EtcdOptions, c *genericapiserver.RecommendedConfig) generic.RESTOptionsGetter {
	etcd.StorageConfig.Codec = codecs.LegacyCodec(scheme.PrioritizedVersionsAllGroups()...)
	etcd.StorageConfig.StorageObjectCountTracker = c.StorageObjectCountTracker
	return etcd.CreateRESTOptionsGetter(
		&genericoptions.SimpleStorageFactory{StorageConfig: etcd.StorageConfig}, c.ResourceTransformers)
}

func installBuiltins(server *genericapiserver.GenericAPIServer, getter generic.RESTOptionsGetter,
	c *genericapiserver.RecommendedConfig, accounts *tokens,
) error {
	groups := map[schema.GroupVersion]map[string]rest.Storage{}
	for _, k := range kinds {
		if groups[k.group] == nil {
			groups[k.group] = map[string]rest.Storage{}
		}
		if err := k.add(groups[k.group], getter); err != nil {
			return err
		}
	}
	core := groups[corev1.SchemeGroupVersion]
	accounts.get = func(ctx context.Context, resource, namespace, name string) (runtime.Object, error) {
		if namespace != "" {
			ctx = request.WithNamespace(ctx, namespace)
		}
		return core[resource].(rest.Getter).Get(ctx, name, &metav1.GetOptions{})
	}
	if accounts.key != nil {
		core["serviceaccounts/token"] = tokenREST{accounts}
	}
	for group, storage := range reviewStorage(&c.Config) {
		groups[group] = storage
	}
	var infos []*genericapiserver.APIGroupInfo
	for group, storage := range groups {
		info := genericapiserver.NewDefaultAPIGroupInfo(group.Group, scheme, metav1.ParameterCodec, codecs)
		info.PrioritizedVersions = []schema.GroupVersion{group}
		info.VersionedResourcesStorageMap[group.Version] = storage
		if group.Group == "" {
			if err := server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, &info); err != nil {
				return err
			}
			continue
		}
		infos = append(infos, &info)
	}
	slices.SortFunc(infos, func(a, b *genericapiserver.APIGroupInfo) int {
		return strings.Compare(a.PrioritizedVersions[0].Group, b.PrioritizedVersions[0].Group)
	})
	return server.InstallAPIGroups(infos...)
}
