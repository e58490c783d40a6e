package main

// Clones, and the templates that they are made of.

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

func duplicate(name string, what reference) *refusal {
	return refuse(&types.DuplicateName{Name: name, Object: what}, fmt.Sprintf("The name '%s' already exists.", name))
}

// children are what is in a folder.
func children(folder reference) []reference {
	if f, ok := simulator.Map.Get(folder).(*simulator.Folder); ok {
		return f.ChildEntity
	}
	return nil
}

func (r *rig) clone(from *simulator.VirtualMachine, m *simulator.Method, q *types.CloneVM_Task) (types.AnyType, *refusal) {
	if e := simulator.Map.FindByName(q.Name, children(q.Folder)); e != nil {
		return nil, duplicate(q.Name, e.Reference())
	}
	host, fault := r.cloneHost(from, &q.Spec)
	if fault != nil {
		return nil, fault
	}
	if f := r.failure(m.Name, q.Name, hostOf(host).Name); f != nil {
		return nil, f
	}
	q.Spec.Location.Host = nil
	// The library gives a clone its source's own device objects, and changes them.
	own := from.Config.Hardware.Device
	from.Config.Hardware.Device = copyDevices(own)
	result, fault := r.library(m)
	from.Config.Hardware.Device = own
	if fault != nil {
		return nil, fault
	}
	vm := vmOf(result.(reference))
	r.copyConfig(from, vm, q.Spec.Config)
	move(vm, host)
	r.settle(vm)
	if groups := r.groups[from.Self]; groups != nil {
		r.groups[vm.Self] = groups
	}
	return result, nil
}

// cloneHost is where a clone is registered: where it is asked for, else on its source's host if
// that belongs to the pool, else on the first host of the pool's cluster that can be used.
func (r *rig) cloneHost(from *simulator.VirtualMachine, spec *types.VirtualMachineCloneSpec) (reference, *refusal) {
	var hosts []reference
	pool := spec.Location.Pool
	if pool == nil {
		pool = from.ResourcePool
	}
	if pool != nil {
		switch p := simulator.Map.Get(*pool).(type) {
		case *simulator.ResourcePool:
			hosts = computeResource(simulator.Map.Get(p.Owner)).Host
		case *simulator.VirtualApp:
			hosts = computeResource(simulator.Map.Get(p.Owner)).Host
		}
	}
	if want := spec.Location.Host; want != nil {
		if len(hosts) > 0 && !has(hosts, *want) {
			return *want, refuse(&types.InvalidArgument{InvalidProperty: "spec.location.host"},
				"A specified parameter was not correct: spec.location.host")
		}
		return *want, r.usable(*want)
	}
	own := *from.Runtime.Host
	if len(hosts) == 0 || has(hosts, own) && r.usable(own) == nil {
		return own, nil
	}
	for _, ref := range hosts {
		if r.usable(ref) == nil {
			return ref, nil
		}
	}
	return own, refuse(&types.NoCompatibleHost{}, "No host is compatible with the virtual machine.")
}

// copyConfig gives a clone what the library forgets: of its source, and of the request.
func (r *rig) copyConfig(from, vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) {
	c := vm.Config
	c.Version, c.Firmware = from.Config.Version, from.Config.Firmware
	c.NestedHVEnabled, c.CpuHotAddEnabled = from.Config.NestedHVEnabled, from.Config.CpuHotAddEnabled
	c.MemoryReservationLockedToMax = from.Config.MemoryReservationLockedToMax
	c.ExtraConfig = append(append([]types.BaseOptionValue{}, from.Config.ExtraConfig...), c.ExtraConfig...)
	if spec == nil {
		return
	}
	if spec.NumCPUs != 0 {
		c.Hardware.NumCPU = spec.NumCPUs
	}
	if spec.NumCoresPerSocket != 0 {
		c.Hardware.NumCoresPerSocket = spec.NumCoresPerSocket
	}
	if spec.MemoryMB != 0 {
		c.Hardware.MemoryMB = int32(spec.MemoryMB)
	}
	if spec.Firmware != "" {
		c.Firmware = spec.Firmware
	}
	for _, b := range []struct {
		from *bool
		to   **bool
	}{
		{spec.MemoryReservationLockedToMax, &c.MemoryReservationLockedToMax},
		{spec.NestedHVEnabled, &c.NestedHVEnabled},
		{spec.CpuHotAddEnabled, &c.CpuHotAddEnabled},
	} {
		if b.from != nil {
			*b.to = b.from
		}
	}
}

// prepare gives the model's VMs what real ones have, and makes the templates of an inventory.
func (r *rig) prepare(in *inventory, version string) error {
	for _, e := range simulator.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		vm.Config.Version, vm.Config.Firmware = version, "efi"
	}
	for name, desired := range in.Templates {
		if err := r.makeTemplate(name, desired); err != nil {
			return fmt.Errorf("template %s: %w", name, err)
		}
	}
	for name, desired := range in.Clusters {
		c, ok := named("ClusterComputeResource", name).(*simulator.ClusterComputeResource)
		if !ok {
			return fmt.Errorf("no cluster %s", name)
		}
		configure(c.ConfigurationEx.(*types.ClusterConfigInfoEx), desired)
	}
	return nil
}

func (r *rig) makeTemplate(name string, desired templateRequest) error {
	var from *simulator.VirtualMachine
	host, _ := named("HostSystem", desired.Host).(*simulator.HostSystem)
	for _, e := range simulator.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		parent := hostOf(*vm.Runtime.Host).Parent
		if !vm.Config.Template && (host == nil || *host.Parent == *parent) && (from == nil || vm.Name > from.Name) {
			from = vm // of the clusters' VMs rather than the standalone host's
		}
	}
	if from == nil {
		return fmt.Errorf("the model has no VM to make it of; see -vm")
	}
	q := &types.CloneVM_Task{This: from.Self, Folder: *from.Parent, Name: name}
	q.Spec.Location.Pool = from.ResourcePool
	if host != nil {
		q.Spec.Location.Host = &host.Self
	}
	result, fault := r.clone(from, &simulator.Method{Name: "CloneVM_Task", This: from.Self, Body: q}, q)
	if fault != nil {
		return fmt.Errorf("%s", fault.LocalizedMessage)
	}
	vm := vmOf(result.(reference))
	for i, d := range desired.Devices {
		device := &VirtualPCIPassthrough{}
		device.Key = int32(-200 - i)
		if d.Profile != "" {
			device.Backing = &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: d.Profile}
		} else {
			device.Backing = &types.VirtualPCIPassthroughDynamicBackingInfo{CustomLabel: d.Label,
				AllowedDevice: []types.VirtualPCIPassthroughAllowedDevice{{VendorId: d.Vendor, DeviceId: d.Device}}}
		}
		vm.Config.Hardware.Device = append(vm.Config.Hardware.Device, device)
	}
	if desired.Version != "" {
		vm.Config.Version = desired.Version
	}
	if desired.Firmware != "" {
		vm.Config.Firmware = desired.Firmware
	}
	if desired.NestedHV {
		vm.Config.NestedHVEnabled = types.NewBool(true)
	}
	r.settle(vm)
	vm.MarkAsTemplate(&types.MarkAsTemplate{This: vm.Self})
	return nil
}

// configure gives a cluster its DRS, groups and rules.
func configure(config *types.ClusterConfigInfoEx, desired clusterRequest) {
	refs := func(kind string, names []string) (found []reference) {
		for _, name := range names {
			if e, ok := named(kind, name).(mo.Entity); ok {
				found = append(found, e.Reference())
			}
		}
		return found
	}
	if desired.DRS != nil {
		config.DrsConfig.Enabled = desired.DRS
	}
	for name, hosts := range desired.HostGroups {
		config.Group = append(config.Group, &types.ClusterHostGroup{
			ClusterGroupInfo: types.ClusterGroupInfo{Name: name, UserCreated: types.NewBool(true)}, Host: refs("HostSystem", hosts)})
	}
	for name, vms := range desired.VMGroups {
		config.Group = append(config.Group, &types.ClusterVmGroup{
			ClusterGroupInfo: types.ClusterGroupInfo{Name: name, UserCreated: types.NewBool(true)}, Vm: refs("VirtualMachine", vms)})
	}
	for vms, hosts := range desired.MustRun {
		config.Rule = append(config.Rule, &types.ClusterVmHostRuleInfo{
			ClusterRuleInfo: types.ClusterRuleInfo{Name: vms + "-on-" + hosts, Enabled: types.NewBool(true), Mandatory: types.NewBool(true)},
			VmGroupName:     vms, AffineHostGroupName: hosts})
	}
}
