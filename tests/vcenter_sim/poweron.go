package main

// Powering on: where vCenter starts a VM, and why not.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// usable says why a host starts no VM.
func (r *rig) usable(ref reference) *refusal {
	h := hostOf(ref)
	switch {
	case h == nil:
		return refuse(&types.ManagedObjectNotFound{Obj: ref},
			"The object has already been deleted or has not been completely created")
	case h.Runtime.ConnectionState != types.HostSystemConnectionStateConnected:
		return refuse(&types.HostNotConnected{}, "Unable to communicate with the remote host, since it is disconnected.")
	case h.Runtime.InMaintenanceMode:
		return refuse(&types.InvalidState{}, "The operation is not allowed in the current state of the host.")
	}
	return nil
}

func computeResource(e mo.Reference) *mo.ComputeResource {
	switch c := e.(type) {
	case *mo.ComputeResource:
		return c
	case *simulator.ClusterComputeResource:
		return &c.ComputeResource
	}
	return nil
}

func clusterConfig(h *simulator.HostSystem) *types.ClusterConfigInfoEx {
	if c, ok := simulator.Map.Get(*h.Parent).(*simulator.ClusterComputeResource); ok {
		config, _ := c.ConfigurationEx.(*types.ClusterConfigInfoEx)
		return config
	}
	return nil
}

func has(refs []reference, ref reference) bool { return simulator.FindReference(refs, ref) != nil }

// allowed says whether the must-run rules of a cluster let a VM run on a host.
func allowed(config *types.ClusterConfigInfoEx, vm, host reference) bool {
	hosts, vms := map[string][]reference{}, map[string][]reference{}
	for _, g := range config.Group {
		switch g := g.(type) {
		case *types.ClusterHostGroup:
			hosts[g.Name] = g.Host
		case *types.ClusterVmGroup:
			vms[g.Name] = g.Vm
		}
	}
	for _, rule := range config.Rule {
		q, ok := rule.(*types.ClusterVmHostRuleInfo)
		if !ok || !isTrue(q.Enabled) || !isTrue(q.Mandatory) || !has(vms[q.VmGroupName], vm) {
			continue
		}
		if q.AffineHostGroupName != "" && !has(hosts[q.AffineHostGroupName], host) ||
			q.AntiAffineHostGroupName != "" && has(hosts[q.AntiAffineHostGroupName], host) {
			return false
		}
	}
	return true
}

// candidates are the hosts that a VM may be started on, its own first, or why there is none.
func (r *rig) candidates(vm *simulator.VirtualMachine) ([]reference, *refusal) {
	own := *vm.Runtime.Host
	config := clusterConfig(hostOf(own))
	_, _, fixed := sorts(vm.Config.Hardware.Device)
	none := refuse(&types.NoCompatibleHost{}, "No host is compatible with the virtual machine.")
	if config == nil || !isTrue(config.DrsConfig.Enabled) || fixed > 0 {
		if f := r.usable(own); f != nil {
			return nil, f
		}
		if config != nil && !allowed(config, vm.Self, own) {
			return nil, none
		}
		return []reference{own}, nil
	}
	var found []reference
	hosts := computeResource(simulator.Map.Get(*hostOf(own).Parent)).Host
	for _, ref := range append([]reference{own}, hosts...) {
		if r.usable(ref) == nil && allowed(config, vm.Self, ref) && !has(found, ref) && r.offersAll(ref, vm.Self) {
			found = append(found, ref)
		}
	}
	if len(found) == 0 || !r.anyHas(found, vm.Config.Hardware.Device) {
		return nil, none
	}
	return found, nil
}

// offersAll says whether a host offers the device groups that a VM has.
func (r *rig) offersAll(host, vm reference) bool {
	for _, name := range r.groups[vm] {
		offered := false
		for _, o := range r.offers[host] {
			offered = offered || o.Name == name
		}
		if !offered {
			return false
		}
	}
	return true
}

// anyHas says whether on some host there is, free or not, each whole device that is asked for.
func (r *rig) anyHas(hosts []reference, devices []types.BaseVirtualDevice) bool {
	for _, d := range passthrough(devices) {
		b, ok := d.GetVirtualDevice().Backing.(*types.VirtualPCIPassthroughDynamicBackingInfo)
		found := !ok
		for _, ref := range hosts {
			for _, g := range r.hosts[ref] {
				found = found || g.is(b)
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// powerOn starts a VM on the first host that has room for its devices.
func (r *rig) powerOn(vm *simulator.VirtualMachine, m *simulator.Method) *refusal {
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn || vm.Config.Template {
		_, fault := r.library(m)
		return fault
	}
	devices := copyDevices(vm.Config.Hardware.Device)
	if len(passthrough(devices)) > 0 && !isTrue(vm.Config.MemoryReservationLockedToMax) {
		return refuse(&types.GenericVmConfigFault{Reason: "msg.memsched.minEqualMemsize"}, fmt.Sprintf(
			"Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(%d).",
			vm.Config.Hardware.MemoryMB))
	}
	hosts, fault := r.candidates(vm)
	if fault != nil {
		return fault
	}
	for _, host := range hosts {
		if !r.offersAll(host, vm.Self) || !r.take(host, vm.Self, devices) {
			continue
		}
		fault := r.failure(m.Name, vm.Name, hostOf(host).Name)
		if fault == nil {
			fault = r.refuseMapping(vm)
		}
		if fault == nil {
			_, fault = r.library(m)
		}
		if fault != nil {
			r.drop(vm.Self)
			return fault
		}
		move(vm, host)
		update(vm, change("config.hardware.device", devices))
		r.publishAll()
		r.speak(vm)
		return nil
	}
	if vgpus, _, _ := sorts(devices); vgpus > 0 {
		return refuse(&types.InsufficientGraphicsResourcesFault{},
			"The amount of graphics resource available in the parent resource pool is insufficient for the operation.")
	}
	return refuse(&types.InsufficientHostCapacityFault{Host: vm.Runtime.Host}, fmt.Sprintf(
		"Insufficient resources. One or more devices (pciPassthru0) required by VM %s are not available on host %s.",
		vm.Name, hostOf(*vm.Runtime.Host).Name))
}

// refuseMapping says why the memory of the GPUs that a VM was given cannot be mapped: large cards
// need UEFI, and keys that make room for them above 4 GiB.
func (r *rig) refuseMapping(vm *simulator.VirtualMachine) *refusal {
	memory := r.heldMemory(vm.Self)
	if memory == 0 {
		return nil
	}
	size, _ := strconv.ParseInt(extraConfig(vm, "pciPassthru.64bitMMIOSizeGB"), 10, 64)
	large := strings.EqualFold(extraConfig(vm, "pciPassthru.use64bitMMIO"), "true")
	if vm.Config.Firmware == "efi" && large && size > memory {
		return nil
	}
	return refuse(&types.GenericVmConfigFault{Reason: "msg.moduletable.powerOnFailed"},
		"Module 'DevicePowerOn' power on failed.")
}
