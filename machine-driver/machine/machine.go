// Package machine makes, runs and removes the VM of a machine on Harvester.
package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"docker-machine-driver-laneway/cluster"
	"docker-machine-driver-laneway/manifest"
	"docker-machine-driver-laneway/plugin"
	"docker-machine-driver-laneway/settings"
)

const (
	kubevirt     = "kubevirt.io/v1"
	subresources = "subresources.kubevirt.io/v1"
	harvester    = "harvesterhci.io/v1beta1"
	vms          = "virtualmachines"
	instances    = "virtualmachineinstances"
	secrets      = "secrets"
	claims       = "persistentvolumeclaims"
)

// Machine is one machine, between two calls of the protocol.
type Machine struct {
	settings.Settings
	arguments []string
	client    *cluster.Client
}

// New is a machine of which nothing is known yet. `arguments` are those of rancher-machine.
func New(arguments []string) *Machine { return &Machine{arguments: arguments} }

// Name is the name of the driver.
func (m *Machine) Name() string { return settings.DriverName }

// CreateFlags are the options.
func (m *Machine) CreateFlags() []plugin.Flag { return settings.Flags() }

// Configure takes the values of the options.
func (m *Machine) Configure(options plugin.Options) error {
	m.client = nil
	return m.Settings.Configure(options)
}

// MarshalConfig is the configuration to store.
func (m *Machine) MarshalConfig() ([]byte, error) { return json.Marshal(m.Settings) }

// UnmarshalConfig takes a stored configuration.
func (m *Machine) UnmarshalConfig(data []byte) error {
	m.client = nil
	return m.Settings.Unmarshal(data, m.arguments)
}

// MachineName is the name of the machine, and of its VM.
func (m *Machine) MachineName() string { return m.Settings.MachineName }

// SSHKeyPath is the file of the private SSH key.
func (m *Machine) SSHKeyPath() string { return m.KeyPath() }

// SSHPort is the port for SSH.
func (m *Machine) SSHPort() int {
	if m.Settings.SSHPort == 0 {
		return 22
	}
	return m.Settings.SSHPort
}

// SSHUsername is the user for SSH.
func (m *Machine) SSHUsername() string {
	if m.SSHUser == "" {
		return "root"
	}
	return m.SSHUser
}

// say tells people what goes on: rancher-machine shows standard output.
func say(format string, values ...interface{}) { fmt.Fprintf(os.Stdout, format+"\n", values...) }

func (m *Machine) connect() (*cluster.Client, error) {
	if m.client == nil {
		client, err := cluster.New(m.KubeConfigContent)
		if err != nil {
			return nil, err
		}
		m.client = client
	}
	return m.client, nil
}

func (m *Machine) title() string { return "VM " + m.VMNamespace + "/" + m.Settings.MachineName }

func (m *Machine) path(resource string, more ...string) string {
	return cluster.Path(kubevirt, m.VMNamespace, resource, append([]string{m.Settings.MachineName}, more...)...)
}

// vm is the VM; nil if there is none.
func (m *Machine) vm(ctx context.Context) (*virtualMachine, error) {
	client, err := m.connect()
	if err != nil {
		return nil, err
	}
	var found virtualMachine
	err = client.Get(ctx, m.path(vms), &found)
	if cluster.IsGone(err, vms, m.Settings.MachineName) {
		return nil, nil
	}
	return &found, err
}

// instance is the running VM; nil if there is none.
func (m *Machine) instance(ctx context.Context) (*instance, error) {
	client, err := m.connect()
	if err != nil {
		return nil, err
	}
	var found instance
	err = client.Get(ctx, m.path(instances), &found)
	if cluster.IsGone(err, instances, m.Settings.MachineName) {
		return nil, nil
	}
	return &found, err
}

// isOwn says whether this driver made a VM for this machine. A machine without an id has passed no
// check, so nothing was made for it.
func (m *Machine) isOwn(vm *virtualMachine) bool {
	return m.MachineID != "" && vm.Metadata.Annotations[manifest.AnnotationMachine] == m.MachineID
}

// State is the state of the machine. That there is no VM is an error.
func (m *Machine) State(ctx context.Context) (plugin.State, error) {
	vm, err := m.vm(ctx)
	if err != nil {
		return plugin.None, fmt.Errorf("the state of %s cannot be read: %w", m.title(), err)
	}
	if vm == nil {
		return plugin.None, fmt.Errorf("%s does not exist", m.title())
	}
	instance, err := m.instance(ctx)
	if err != nil {
		return plugin.None, fmt.Errorf("the state of %s cannot be read: %w", m.title(), err)
	}
	return state(instance), nil
}

func state(instance *instance) plugin.State {
	if instance == nil {
		return plugin.Stopped
	}
	if instance.Metadata.DeletionTimestamp != "" {
		return plugin.Stopping
	}
	switch instance.Status.Phase {
	case "Running":
		if instance.Status.condition("Paused").Status == "True" {
			return plugin.Paused
		}
		return plugin.Running
	case "Succeeded": // the guest has shut down; the object stays until the VM starts again
		return plugin.Stopped
	case "Failed":
		return plugin.Error
	default:
		return plugin.Starting
	}
}

// running gives the running VM, or says why there is none.
func (m *Machine) running(ctx context.Context) (*instance, error) {
	instance, err := m.instance(ctx)
	if err != nil {
		return nil, err
	}
	if state(instance) != plugin.Running {
		return nil, fmt.Errorf("%s does not run", m.title())
	}
	return instance, nil
}

// IP is the IPv4 address of the first network interface that has one.
func (m *Machine) IP(ctx context.Context) (string, error) {
	return m.address(ctx, "IPv4", func(ip net.IP) bool { return ip.To4() != nil })
}

// IPv6 is the IPv6 address of the first network interface that has one that is not link-local.
func (m *Machine) IPv6(ctx context.Context) (string, error) {
	return m.address(ctx, "IPv6", func(ip net.IP) bool {
		return ip.To4() == nil && !ip.IsLinkLocalUnicast()
	})
}

func (m *Machine) address(ctx context.Context, kind string, fits func(net.IP) bool) (string, error) {
	instance, err := m.running(ctx)
	if err != nil {
		return "", err
	}
	if found := instance.address(fits); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("%s has no %s address yet", m.title(), kind)
}

// URL is where a container engine would listen.
func (m *Machine) URL(ctx context.Context) (string, error) {
	ip, err := m.IP(ctx)
	if err != nil {
		return "", err
	}
	return "tcp://" + net.JoinHostPort(ip, "2376"), nil
}

// Upgrade has the machine run: rancher-machine upgrades software by SSH.
func (m *Machine) Upgrade(ctx context.Context) error {
	now, err := m.State(ctx)
	if err != nil || now == plugin.Running {
		return err
	}
	return m.Start(ctx)
}

var errEnded = errors.New("the driver was told to end")
