package main

// Reconfiguring a VM, and what came of it.

import (
	"encoding/xml"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// extra is what the library's types leave of a request: the groups of devices of the API 8.0.
type extra struct {
	groups  map[int32]string           // name by groupInstanceKey
	members map[int32]*deviceGroupInfo // by key of the device
}

// readExtra reads it from the request as it came.
func readExtra(raw []byte) extra {
	var spec struct {
		Groups []struct {
			Key  int32  `xml:"groupInstanceKey"`
			Name string `xml:"deviceGroupName"`
		} `xml:"Body>ReconfigVM_Task>spec>deviceGroups>deviceGroup"`
		Devices []struct {
			Key  int32            `xml:"key"`
			Info *deviceGroupInfo `xml:"deviceGroupInfo"`
		} `xml:"Body>ReconfigVM_Task>spec>deviceChange>device"`
	}
	x := extra{map[int32]string{}, map[int32]*deviceGroupInfo{}}
	if xml.Unmarshal(raw, &spec) != nil {
		return x
	}
	for _, g := range spec.Groups {
		x.groups[g.Key] = g.Name
	}
	for _, d := range spec.Devices {
		if d.Info != nil {
			x.members[d.Key] = d.Info
		}
	}
	return x
}

func (r *rig) reconfigure(vm *simulator.VirtualMachine, m *simulator.Method, q *types.ReconfigVM_Task, x extra) *refusal {
	if r.api < "8.0" {
		x = extra{}
	}
	if f := r.refuseDevices(vm, &q.Spec, x); f != nil {
		return f
	}
	for _, c := range q.Spec.DeviceChange {
		s := c.GetVirtualDeviceConfigSpec()
		if d, ok := s.Device.(*types.VirtualPCIPassthrough); ok && s.Operation == types.VirtualDeviceConfigSpecOperationAdd {
			s.Device = &VirtualPCIPassthrough{*d, x.members[d.Key]}
		}
	}
	before := vm.Config.Hardware.Device
	vm.Config.Hardware.Device = append([]types.BaseVirtualDevice{}, before...)
	if _, fault := r.library(m); fault != nil {
		return fault
	}
	for key, name := range x.groups {
		if r.groups[vm.Self] == nil {
			r.groups[vm.Self] = map[int32]string{}
		}
		r.groups[vm.Self][key] = name
	}
	r.settle(vm)
	return nil
}

// settle gives passthrough devices the keys that vCenter would give, extraConfig each key once, and
// tells what may have changed.
func (r *rig) settle(vm *simulator.VirtualMachine) {
	devices := copyDevices(vm.Config.Hardware.Device)
	used := map[int32]bool{}
	for _, d := range devices {
		used[d.GetVirtualDevice().Key] = true
	}
	next := int32(firstKey)
	for _, d := range passthrough(devices) {
		base := d.GetVirtualDevice()
		if base.Key >= firstKey {
			continue
		}
		for used[next] {
			next++
		}
		used[next] = true
		unit := next - firstKey + 18
		base.Key, base.ControllerKey, base.UnitNumber = next, 100, &unit
		base.DeviceInfo = &types.Description{Label: "PCI device " + string(rune('0'+(next-firstKey)%10)), Summary: ""}
	}
	changes := []types.PropertyChange{
		change("config.hardware.device", devices),
		change("config.extraConfig", once(vm.Config.ExtraConfig)),
		change("config.hardware.memoryMB", vm.Config.Hardware.MemoryMB),
		change("config.hardware.numCPU", vm.Config.Hardware.NumCPU),
		change("config.firmware", vm.Config.Firmware),
		change("config.version", vm.Config.Version),
	}
	for name, value := range map[string]*bool{
		"config.memoryReservationLockedToMax": vm.Config.MemoryReservationLockedToMax,
		"config.nestedHVEnabled":              vm.Config.NestedHVEnabled,
		"config.cpuHotAddEnabled":             vm.Config.CpuHotAddEnabled,
	} {
		if value != nil {
			changes = append(changes, change(name, value))
		}
	}
	update(vm, changes...)
}

// once keeps of each key the last value; an empty one removes the key.
func once(options []types.BaseOptionValue) []types.BaseOptionValue {
	last := map[string]types.BaseOptionValue{}
	for _, o := range options {
		last[o.GetOptionValue().Key] = o
	}
	var kept []types.BaseOptionValue
	for _, o := range options {
		key := o.GetOptionValue().Key
		if l := last[key]; l == o && l.GetOptionValue().Value != "" {
			kept = append(kept, o)
		}
	}
	return kept
}

func extraConfig(vm *simulator.VirtualMachine, key string) string {
	for _, o := range vm.Config.ExtraConfig {
		if v := o.GetOptionValue(); v.Key == key {
			s, _ := v.Value.(string)
			return s
		}
	}
	return ""
}

// detach takes a device from a VM behind everybody's back, on or off.
func (r *rig) detach(vm *simulator.VirtualMachine, key int32) bool {
	var kept []types.BaseVirtualDevice
	found := false
	for _, d := range copyDevices(vm.Config.Hardware.Device) {
		if !isPassthrough(d) || found || key != 0 && d.GetVirtualDevice().Key != key {
			kept = append(kept, d)
			continue
		}
		found = true
		switch b := d.GetVirtualDevice().Backing.(type) {
		case *types.VirtualPCIPassthroughVmiopBackingInfo:
			r.dropOne(vm.Self, b.Vgpu, "")
		case *types.VirtualPCIPassthroughDynamicBackingInfo:
			if len(b.AssignedId) > 5 {
				r.dropOne(vm.Self, "", b.AssignedId[5:])
			}
		case *types.VirtualPCIPassthroughDeviceBackingInfo:
			r.dropOne(vm.Self, "", b.Id)
		}
	}
	if found {
		update(vm, change("config.hardware.device", kept))
		r.publishAll()
	}
	return found
}
