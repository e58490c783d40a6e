// A kube-apiserver made of Kubernetes' own libraries, as far as they go without the registry of
// Kubernetes itself: custom resources as there, admission as there, and a shelf for built-in kinds
// that keeps their objects as any other, but knows few of their rules (builtin.go).
//
// It takes the options of kube-apiserver that tools/real-apiserver/start.sh gives. Those that have no
// meaning here are read and ignored.
package main

import (
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	extensionoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	apimachineryerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/version/verflag"

	generated "laneway/openapi"
)

type options struct {
	run       *genericoptions.ServerRunOptions
	secure    *genericoptions.SecureServingOptionsWithLoopback
	etcd      *genericoptions.EtcdOptions
	audit     *genericoptions.AuditOptions
	features  *genericoptions.FeatureOptions
	admission *genericoptions.AdmissionOptions
	who       identity
}

func newOptions() *options {
	codec := apiextensions.Codecs.LegacyCodec(apiextensions.Scheme.PrioritizedVersionsAllGroups()...)
	secure := genericoptions.NewSecureServingOptions()
	secure.HTTP2MaxStreamsPerConnection = 1000
	secure.ServerCert.CertDirectory = "/nonexistent"
	secure.ServerCert.PairName = "apiserver"
	return &options{
		run:       genericoptions.NewServerRunOptions(),
		secure:    secure.WithLoopback(),
		etcd:      genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", codec)),
		audit:     genericoptions.NewAuditOptions(),
		features:  genericoptions.NewFeatureOptions(),
		admission: genericoptions.NewAdmissionOptions(),
	}
}

// addFlags adds kube-apiserver's names; those without meaning here are accepted.
func (o *options) addFlags(flags *pflag.FlagSet) {
	o.run.AddUniversalFlags(flags)
	o.secure.AddFlags(flags)
	o.etcd.AddFlags(flags)
	o.audit.AddFlags(flags)
	o.features.AddFlags(flags)
	o.admission.AddFlags(flags)
	o.who.addFlags(flags)
	verflag.AddFlags(flags)
	for _, name := range []string{
		"authorization-mode", "service-account-key-file", "service-cluster-ip-range", "allow-privileged",
	} {
		flags.String(name, "", "accepted, and without meaning here")
	}
}

// forget drops admission plugins that only Kubernetes itself has from those switched off.
func (o *options) forget() {
	known := o.admission.Plugins.Registered()
	o.admission.DisablePlugins = slices.DeleteFunc(o.admission.DisablePlugins, func(name string) bool {
		return !slices.Contains(known, name)
	})
}

func (o *options) validate() error {
	errs := slices.Concat(o.run.Validate(), o.secure.Validate(), o.etcd.Validate(), o.audit.Validate(),
		o.features.Validate(), o.admission.Validate())
	return apimachineryerrors.NewAggregate(errs)
}

// config is what apiextensions-apiserver configures, with our own users instead of another server's.
func (o *options) config() (*apiextensions.Config, error) {
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if err := o.secure.MaybeDefaultWithSelfSignedCerts("localhost", names, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	c := genericapiserver.NewRecommendedConfig(apiextensions.Codecs)
	if err := o.run.ApplyTo(&c.Config); err != nil {
		return nil, err
	}
	if err := o.etcd.ApplyTo(&c.Config); err != nil {
		return nil, err
	}
	if err := o.secure.ApplyToConfig(&c.Config); err != nil {
		return nil, err
	}
	if err := o.audit.ApplyTo(&c.Config); err != nil {
		return nil, err
	}
	c.ClientConfig = c.LoopbackClientConfig
	client, err := kubernetes.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	c.SharedInformerFactory = informers.NewSharedInformerFactory(client, 0)
	if err := o.who.applyTo(&c.Config, c.SharedInformerFactory); err != nil {
		return nil, err
	}
	if err := o.features.ApplyTo(&c.Config, client, c.SharedInformerFactory); err != nil {
		return nil, err
	}
	services := serviceResolver{c.SharedInformerFactory.Core().V1().Services().Lister()}
	callers := webhook.NewDefaultAuthenticationInfoResolverWrapper(
		nil, nil, c.LoopbackClientConfig, noopoteltrace.NewTracerProvider())
	initializers := []admission.PluginInitializer{
		webhookinit.NewPluginInitializer(callers, services), excluded{},
	}
	if err := o.admission.ApplyTo(&c.Config, c.SharedInformerFactory, client, dynamicClient,
		utilfeature.DefaultFeatureGate, c.EffectiveVersion, initializers...); err != nil {
		return nil, err
	}
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generated.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(apiextensions.Scheme, clientscheme.Scheme)
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	c.OpenAPIConfig.Info.Title = "Kubernetes"
	c.OpenAPIV3Config.Info.Title = "Kubernetes"
	c.MergedResourceConfig = serverstorage.NewResourceConfig()
	c.MergedResourceConfig.EnableVersions(apiextensions.Scheme.PrioritizedVersionsAllGroups()...)
	return &apiextensions.Config{
		GenericConfig: c,
		ExtraConfig: apiextensions.ExtraConfig{
			MasterCount: 1,
			CRDRESTOptionsGetter: extensionoptions.NewCRDRESTOptionsGetter(
				*o.etcd, c.ResourceTransformers, c.StorageObjectCountTracker),
			ServiceResolver:     services,
			AuthResolverWrapper: callers,
		},
	}, nil
}

func (o *options) serve(cmd *cobra.Command, _ []string) error {
	verflag.PrintAndExitIfRequested()
	o.forget()
	if err := o.run.Complete(); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	server, err := config.Complete().New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	getter := builtinRESTOptions(*o.etcd, config.GenericConfig)
	if err := installBuiltins(server.GenericAPIServer, getter, config.GenericConfig, &o.who.accounts); err != nil {
		return err
	}
	installDiscovery(server)
	if err := addHooks(server.GenericAPIServer, config.GenericConfig.LoopbackClientConfig); err != nil {
		return err
	}
	return server.GenericAPIServer.PrepareRun().RunWithContext(cmd.Context())
}

func main() {
	o := newOptions()
	cmd := &cobra.Command{
		Use:          "kube-apiserver",
		Short:        "API server of Kubernetes' libraries: custom resources, admission, and a shelf for built-in kinds",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.run.ComponentGlobalsRegistry.Set()
		},
		RunE: o.serve,
	}
	cmd.SetContext(genericapiserver.SetupSignalContext())
	o.addFlags(cmd.Flags())
	os.Exit(cli.Run(cmd))
}
