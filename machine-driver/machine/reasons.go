package machine

import (
	"context"
	"net/url"
	"strings"

	"docker-machine-driver-laneway/cluster"
)

// obstacle is what keeps a VM from starting, in the words of who says so.
type obstacle struct {
	text string
	// passes: it is on its way, and only the whole time is limited.
	passes bool
}

// obstacle looks at the VM, its instance and the pod, in the order in which they come to be.
func (m *Machine) obstacle(ctx context.Context, vm *virtualMachine, now *instance) obstacle {
	if now == nil {
		if refused := vm.Status.Conditions.of("Failure"); refused.Status == "True" {
			return obstacle{text: refused.Message}
		}
		return obstacle{}
	}
	if now.Status.Phase == "Failed" {
		text := now.Status.condition("Ready").Message
		if synced := now.Status.condition("Synchronized"); synced.Status == "False" && synced.Message != "" {
			text = synced.Message
		}
		return obstacle{text: or(text, "it ends as soon as it starts")}
	}
	if scheduled := now.Status.condition("PodScheduled"); scheduled.Status == "False" {
		return scheduling(scheduled)
	}
	if scheduled := m.scheduled(ctx, now); scheduled.Status == "False" {
		return scheduling(scheduled)
	}
	if synced := now.Status.condition("Synchronized"); synced.Status == "False" {
		return obstacle{text: synced.Message}
	}
	return obstacle{}
}

// scheduling is the word of the scheduler. It waits for volumes as long as they are made.
func scheduling(said condition) obstacle {
	text := or(said.Message, said.Reason)
	passes := strings.Contains(text, "PersistentVolumeClaim") && !strings.Contains(text, "Insufficient")
	return obstacle{"the scheduler finds no node for it: " + text, passes}
}

// scheduled is the condition of the pod. Who may not read pods has that of the instance only.
func (m *Machine) scheduled(ctx context.Context, now *instance) condition {
	client, err := m.connect()
	if err != nil {
		return condition{}
	}
	query := url.Values{"labelSelector": {"kubevirt.io/created-by=" + now.Metadata.UID}}
	var found pods
	path := cluster.Path("v1", m.VMNamespace, "pods") + "?" + query.Encode()
	if client.Get(ctx, path, &found) != nil {
		return condition{}
	}
	for _, pod := range found.Items {
		if pod.Status.Phase == "Pending" {
			return pod.Status.Conditions.of("PodScheduled")
		}
	}
	return condition{}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
