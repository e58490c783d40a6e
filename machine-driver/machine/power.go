package machine

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"docker-machine-driver-laneway/cluster"
)

// Start starts the VM, and waits until it runs and has an address.
func (m *Machine) Start(ctx context.Context) error {
	// One that has failed is started again by KubeVirt itself.
	err := m.request(ctx, "start", nil)
	if err != nil && !isConflict(err, "already running") && !isConflict(err, "from failed state") {
		return err
	}
	return m.ready(ctx, "")
}

// Stop has the guest shut down, and waits until it has.
func (m *Machine) Stop(ctx context.Context) error { return m.stop(ctx, nil) }

// Kill stops the VM without waiting for its guest.
func (m *Machine) Kill(ctx context.Context) error {
	return m.stop(ctx, cluster.Object{"gracePeriod": 0})
}

func (m *Machine) stop(ctx context.Context, options cluster.Object) error {
	err := m.request(ctx, "stop", options)
	if err != nil && !isConflict(err, "not running") {
		return err
	}
	return m.stopped(ctx)
}

// isConflict says whether KubeVirt refuses a change for the state that the VM is in.
func isConflict(err error, text string) bool {
	return cluster.IsCode(err, http.StatusConflict) && cluster.Says(err, text)
}

// Restart restarts the VM; one that is stopped is started.
func (m *Machine) Restart(ctx context.Context) error {
	now, err := m.instance(ctx)
	if err != nil {
		return err
	}
	if now == nil {
		return m.Start(ctx)
	}
	if err := m.request(ctx, "restart", nil); err != nil {
		return err
	}
	return m.ready(ctx, now.Metadata.UID)
}

// request uses a subresource of KubeVirt, which knows every run strategy.
func (m *Machine) request(ctx context.Context, action string, options cluster.Object) error {
	client, err := m.connect()
	if err != nil {
		return err
	}
	vm, err := m.vm(ctx)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", m.title(), err)
	}
	if vm == nil {
		return fmt.Errorf("%s does not exist", m.title())
	}
	path := cluster.Path(subresources, m.VMNamespace, vms, m.Settings.MachineName, action)
	if options == nil {
		options = cluster.Object{}
	}
	limit := time.Now().Add(duration(patience))
	for {
		err := client.Put(ctx, path, options)
		if err == nil {
			return nil
		}
		// KubeVirt keeps a request for a moment after the VM has stopped, and takes no other one.
		if !cluster.Says(err, "already underway") || time.Now().After(limit) || pause(ctx) != nil {
			return fmt.Errorf("KubeVirt does not %s %s: %w", action, m.title(), err)
		}
	}
}
