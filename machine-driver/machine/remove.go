package machine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"

	"docker-machine-driver-laneway/cluster"
	"docker-machine-driver-laneway/manifest"
)

const (
	annotationRemoved   = "harvesterhci.io/removedPersistentVolumeClaims"
	annotationRemoveAll = "harvesterhci.io/removeAllPersistentVolumeClaims"
	removeTimeout       = 10 * time.Minute
)

// Remove deletes the VM and the disks that were made for it. One that is gone already, or that is
// another's, is left alone: nothing of this machine is there.
func (m *Machine) Remove(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := m.remove(bounded); err != nil {
		// rancher-machine takes an error that says "not found" for a machine that is gone, and forgets it.
		return errors.New(strings.NewReplacer("not found", "missing", "Not Found", "missing").Replace(err.Error()))
	}
	return nil
}

func (m *Machine) remove(ctx context.Context) error {
	client, err := m.connect()
	if err != nil {
		return err
	}
	vm, err := m.vm(ctx)
	if err != nil {
		return fmt.Errorf("whether %s exists cannot be read: %w", m.title(), err)
	}
	if vm == nil {
		say("%s is gone already.", m.title())
		return nil
	}
	if !m.isOwn(vm) {
		say("%s was not made for this machine, and stays.", m.title())
		return nil
	}
	if vm.Metadata.DeletionTimestamp == "" {
		if err := m.delete(ctx, client, vm); err != nil {
			return fmt.Errorf("%s is not deleted: %w", m.title(), err)
		}
	}
	return m.gone(ctx, vm.Metadata.UID)
}

func (m *Machine) delete(ctx context.Context, client *cluster.Client, vm *virtualMachine) error {
	disks, err := m.removedDisks(ctx, client, vm)
	if err != nil {
		return err
	}
	uid := vm.Metadata.UID
	marked := cluster.Object{"metadata": cluster.Object{
		"uid":         uid,
		"annotations": cluster.Object{annotationRemoved: strings.Join(disks, ",")},
	}}
	if err := client.Patch(ctx, m.path(vms), marked); err != nil {
		return err
	}
	return client.Delete(ctx, m.path(vms), cluster.Object{
		"apiVersion":        "v1",
		"kind":              "DeleteOptions",
		"propagationPolicy": "Foreground",
		"preconditions":     cluster.Object{"uid": uid},
	})
}

// removedDisks are the claims that Harvester deletes with the VM. Disks that were added while it ran
// stay, unless its annotation says that all of the guest cluster go, and the configuration names it.
func (m *Machine) removedDisks(
	ctx context.Context, client *cluster.Client, vm *virtualMachine,
) ([]string, error) {
	all := vm.Metadata.Annotations[annotationRemoveAll] == "true"
	found := map[string]bool{}
	for _, volume := range vm.Spec.Template.Spec.Volumes {
		if volume.Claim != nil && (all || !volume.Claim.Hotpluggable) {
			found[volume.Claim.Name] = true
		}
	}
	selector := manifest.ClusterSelector(&m.Settings)
	if all && selector == "" {
		say("Warning: the configuration of %s has no clusterName. Disks of the guest cluster that the VM "+
			"does not have stay.", m.title())
	}
	if all && selector != "" {
		query := url.Values{"labelSelector": {selector}}
		var list struct {
			Items []struct {
				Metadata metadata `json:"metadata"`
			} `json:"items"`
		}
		path := cluster.Path("v1", m.VMNamespace, claims) + "?" + query.Encode()
		if err := client.Get(ctx, path, &list); err != nil {
			return nil, err
		}
		for _, claim := range list.Items {
			found[claim.Metadata.Name] = true
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

// gone waits until a VM does not exist any more.
func (m *Machine) gone(ctx context.Context, uid string) error {
	for {
		vm, err := m.vm(ctx)
		if err == nil && (vm == nil || vm.Metadata.UID != uid) {
			return nil
		}
		if err != nil && !cluster.IsTemporary(err) {
			return err
		}
		if pause(ctx) != nil {
			return fmt.Errorf("%s is being deleted, and still there. Its finalizers: %s",
				m.title(), finalizers(vm))
		}
	}
}

func finalizers(vm *virtualMachine) string {
	if vm == nil || len(vm.Metadata.Finalizers) == 0 {
		return "none known"
	}
	return strings.Join(vm.Metadata.Finalizers, ", ")
}
