package machine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"docker-machine-driver-laneway/cluster"
	"docker-machine-driver-laneway/manifest"
	"docker-machine-driver-laneway/plugin"
)

// Create makes the VM and waits until it runs and has an address. Where that fails, it removes what it
// has made: a VM that waits for devices takes them from others as soon as some are free.
func (m *Machine) Create(ctx context.Context) error {
	if m.MachineID == "" {
		return fmt.Errorf("%s is not created: the machine has not passed the check before its creation",
			m.title())
	}
	client, err := m.connect()
	if err != nil {
		return err
	}
	if err := m.makeKey(); err != nil {
		return fmt.Errorf("the SSH key cannot be stored: %w", err)
	}
	userData, err := m.userData()
	if err != nil {
		return err
	}
	vm, err := m.manifest(ctx, client)
	if err != nil {
		return err
	}
	var made virtualMachine
	path := cluster.Path(kubevirt, m.VMNamespace, vms)
	if err := client.Create(ctx, path, vm, &made); err != nil {
		return fmt.Errorf("Harvester refuses %s: %w", m.title(), err)
	}
	say("%s is created. Waiting for it to start.", m.title())
	if err := m.finish(ctx, client, userData, &made); err != nil {
		return m.undo(ctx, err)
	}
	return nil
}

func (m *Machine) finish(
	ctx context.Context, client *cluster.Client, userData string, made *virtualMachine,
) (err error) {
	defer plugin.Caught(&err) // or the VM would stay
	path := cluster.Path("v1", m.VMNamespace, secrets)
	secret := manifest.Secret(&m.Settings, userData, made.Metadata.UID)
	if err := client.Create(ctx, path, secret, nil); err != nil {
		return fmt.Errorf("the secret %s with the data of cloud-init is refused: %w",
			manifest.SecretName(&m.Settings), err)
	}
	return m.ready(ctx, "")
}

// undo removes the VM that failed, and says so with the reason. A driver that was told to end has little
// time for that: it makes sure of the deletion, and does not wait for its end.
func (m *Machine) undo(ctx context.Context, reason error) error {
	limit := removeTimeout
	if ctx.Err() != nil {
		limit = undoTimeout
	}
	bounded, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	text := strings.TrimSuffix(reason.Error(), ".")
	if err := m.remove(bounded); err != nil {
		return fmt.Errorf("%s. %s could not be removed, and may hold devices: %w", text, m.title(), err)
	}
	return fmt.Errorf("%s. %s is removed", text, m.title())
}

// undoTimeout is less than what the driver waits for a call to end.
const undoTimeout = 15 * time.Second

func (m *Machine) userData() (string, error) {
	ofMachine := ""
	if m.CloudConfig != "" {
		data, err := os.ReadFile(m.CloudConfig)
		if err != nil {
			return "", fmt.Errorf("the cloud-config of rancher-machine cannot be read: %w", err)
		}
		ofMachine = string(data)
	}
	return manifest.UserData(&m.Settings, ofMachine)
}
