package machine

import (
	"context"
	"fmt"
	"time"

	"docker-machine-driver-laneway/cluster"
	"docker-machine-driver-laneway/plugin"
)

// How long is waited. Variables, so that tests are built with shorter ones.
var (
	// settling is how long devices may take to be free again after the VM that had them is gone.
	settling = "30s"
	// patience: what keeps a VM from starting may pass by itself, such as a device of a VM that is just
	// ending. When nothing of it changes for so long, it does not pass.
	patience = "2m"
	// startTimeout is how long a VM may take until it runs; images of containers and disks are copied.
	startTimeout = "10m"
	// addressTimeout is how long a guest may take until it has an address.
	addressTimeout = "10m"
	pollInterval   = "2s"
)

// failedStarts: KubeVirt starts a VM again that has failed. It will fail again after so many times.
const failedStarts = 3

func duration(text string) time.Duration {
	found, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return found
}

// ready waits until the machine runs and has an address. `before` is the uid of the instance that it
// had before a restart.
func (m *Machine) ready(ctx context.Context, before string) error {
	if err := m.started(ctx, before); err != nil {
		return err
	}
	say("%s runs. Waiting for its address.", m.title())
	limit := time.Now().Add(duration(addressTimeout))
	for {
		ip, err := m.IP(ctx)
		if err == nil {
			m.IPAddress = ip
			m.IPv6Address, _ = m.IPv6(ctx)
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%w. Check that its network has DHCP or networkData, and that its image "+
				"has the QEMU guest agent", err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (m *Machine) started(ctx context.Context, before string) error {
	watch := watch{began: time.Now()}
	for {
		vm, now, err := m.look(ctx)
		if err == nil && vm == nil {
			return fmt.Errorf("%s was deleted while it started", m.title())
		}
		if err != nil && !cluster.IsTemporary(err) {
			return err
		}
		if err == nil {
			if state(now) == plugin.Running && now.Metadata.UID != before {
				return nil
			}
			watch.see(now, m.obstacle(ctx, vm, now))
		}
		if reason := watch.over(err); reason != "" {
			return fmt.Errorf("%s does not start: %s", m.title(), reason)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (m *Machine) look(ctx context.Context) (*virtualMachine, *instance, error) {
	vm, err := m.vm(ctx)
	if err != nil || vm == nil {
		return nil, nil, err
	}
	now, err := m.instance(ctx)
	return vm, now, err
}

// stopped waits until the machine does not run.
func (m *Machine) stopped(ctx context.Context) error {
	limit := time.Now().Add(duration(startTimeout))
	for {
		now, err := m.State(ctx)
		if err == nil && now == plugin.Stopped {
			return nil
		}
		if err != nil && !cluster.IsTemporary(err) {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s has not stopped within %s. Its guest may ignore the request to shut down",
				m.title(), startTimeout)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errEnded
	case <-time.After(duration(pollInterval)):
		return nil
	}
}

// watch remembers what keeps a VM from starting.
type watch struct {
	began  time.Time
	reason obstacle
	since  time.Time
	failed map[string]bool
}

func (w *watch) see(now *instance, found obstacle) {
	if w.failed == nil {
		w.failed = map[string]bool{}
	}
	if now != nil && now.Status.Phase == "Failed" {
		w.failed[now.Metadata.UID] = true
	}
	if found.text == "" && len(w.failed) > 0 {
		return // between two starts: the reason of the last one counts
	}
	if found != w.reason {
		if found.text != "" {
			say("Waiting: %s", found.text)
		}
		w.reason, w.since = found, time.Now()
	}
}

// over says why it is no use to wait any longer; empty while it is.
func (w *watch) over(unreadable error) string {
	if time.Since(w.began) > duration(startTimeout) {
		switch {
		case unreadable != nil:
			return fmt.Sprintf("its state cannot be read: %v", unreadable)
		case w.reason.text != "":
			return w.reason.text
		default:
			return fmt.Sprintf("it does not run within %s, and nothing says why", startTimeout)
		}
	}
	stuck := w.reason.text != "" && !w.reason.passes && time.Since(w.since) > duration(patience)
	if stuck || len(w.failed) >= failedStarts {
		return w.reason.text
	}
	return ""
}
