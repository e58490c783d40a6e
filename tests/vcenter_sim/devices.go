package main

// Passthrough devices of VMs, and the rules that they can be attached and detached by.

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	firstKey = 13000 // of passthrough devices on a real vCenter
	mostOf   = 16    // passthrough devices of one VM
)

// VirtualPCIPassthrough has what the library's type of the same name lacks.
type VirtualPCIPassthrough struct {
	types.VirtualPCIPassthrough
	DeviceGroupInfo *deviceGroupInfo `xml:"deviceGroupInfo,omitempty"`
}

type deviceGroupInfo struct {
	GroupInstanceKey int32 `xml:"groupInstanceKey"`
	SequenceID       int32 `xml:"sequenceId"`
}

func isPassthrough(d types.BaseVirtualDevice) bool {
	switch d.(type) {
	case *types.VirtualPCIPassthrough, *VirtualPCIPassthrough:
		return true
	}
	return false
}

func passthrough(devices []types.BaseVirtualDevice) (found []types.BaseVirtualDevice) {
	for _, d := range devices {
		if isPassthrough(d) {
			found = append(found, d)
		}
	}
	return found
}

// sorts counts the devices of each kind of backing.
func sorts(devices []types.BaseVirtualDevice) (vgpu, dynamic, fixed int) {
	for _, d := range passthrough(devices) {
		switch d.GetVirtualDevice().Backing.(type) {
		case *types.VirtualPCIPassthroughVmiopBackingInfo:
			vgpu++
		case *types.VirtualPCIPassthroughDynamicBackingInfo:
			dynamic++
		case *types.VirtualPCIPassthroughDeviceBackingInfo:
			fixed++
		}
	}
	return vgpu, dynamic, fixed
}

// copyDevices copies each device and its backing, not what they point to. Devices are never changed
// in place: an answer may be on its way to a client.
func copyDevices(in []types.BaseVirtualDevice) []types.BaseVirtualDevice {
	shallow := func(x interface{}) interface{} {
		v := reflect.ValueOf(x)
		n := reflect.New(v.Type().Elem())
		n.Elem().Set(v.Elem())
		return n.Interface()
	}
	out := make([]types.BaseVirtualDevice, len(in))
	for i, d := range in {
		out[i] = shallow(d).(types.BaseVirtualDevice)
		if b := out[i].GetVirtualDevice().Backing; b != nil {
			out[i].GetVirtualDevice().Backing = shallow(b).(types.BaseVirtualDeviceBackingInfo)
		}
	}
	return out
}

func hwVersion(v string) int { n, _ := strconv.Atoi(strings.TrimPrefix(v, "vmx-")); return n }

func isTrue(b *bool) bool { return b != nil && *b }

// refuseDevices says why vCenter would not reconfigure a VM like that.
func (r *rig) refuseDevices(vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec, x extra) *refusal {
	var add []types.BaseVirtualDevice
	keys := map[int32]bool{}
	have := passthrough(vm.Config.Hardware.Device)
	left := len(have)
	for i, c := range spec.DeviceChange {
		s := c.GetVirtualDeviceConfigSpec()
		key := s.Device.GetVirtualDevice().Key
		switch {
		case s.Operation == types.VirtualDeviceConfigSpecOperationRemove:
			found := false
			for _, d := range vm.Config.Hardware.Device {
				found = found || d.GetVirtualDevice().Key == key
			}
			if !found {
				return refuse(&types.InvalidDeviceSpec{DeviceIndex: int32(i)}, fmt.Sprintf("Invalid configuration for device '%d'.", i))
			}
			if isPassthrough(s.Device) && vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
				return powerState(vm, types.VirtualMachinePowerStatePoweredOff)
			}
			left--
		case isPassthrough(s.Device) && s.Operation == types.VirtualDeviceConfigSpecOperationAdd:
			if keys[key] {
				return refuse(&types.InvalidArgument{InvalidProperty: fmt.Sprintf("configSpec.deviceChange[%d].device.key", i)},
					"Cannot add multiple devices using the same device key.")
			}
			keys[key] = true
			add = append(add, s.Device)
		}
	}
	nested := isTrue(vm.Config.NestedHVEnabled)
	if spec.NestedHVEnabled != nil {
		nested = *spec.NestedHVEnabled
	}
	if nested && len(add)+left > 0 && (len(add) > 0 || spec.NestedHVEnabled != nil) {
		return refuse(&types.GenericVmConfigFault{Reason: "msg.pciPassthru.nestedHV"},
			"PCI passthrough devices cannot be added when Nested Hardware-Assisted Virtualization is enabled.")
	}
	if len(add) == 0 {
		return nil
	}
	if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
		return powerState(vm, types.VirtualMachinePowerStatePoweredOff)
	}
	if _, dynamic, _ := sorts(add); dynamic > 0 && hwVersion(vm.Config.Version) < 17 {
		return refuse(&types.DeviceUnsupportedForVmVersion{CurrentVersion: vm.Config.Version, ExpectedVersion: "vmx-17"},
			"Dynamic DirectPath I/O needs virtual hardware version 17 or later.")
	}
	if left+len(add) > mostOf {
		return refuse(&types.TooManyDevices{InvalidVmConfig: types.InvalidVmConfig{Property: "configSpec.deviceChange"}},
			fmt.Sprintf("There are too many devices of PCI passthrough: at most %d are supported.", mostOf))
	}
	return r.refuseGroups(add, x)
}

// refuseGroups says why the vendor device groups of a request are not as hosts offer them.
func (r *rig) refuseGroups(add []types.BaseVirtualDevice, x extra) *refusal {
	wrong := refuse(&types.InvalidArgument{InvalidProperty: "configSpec.deviceGroups"},
		"A specified parameter was not correct: configSpec.deviceGroups")
	members := map[int32]int{}
	for _, d := range add {
		if info := x.members[d.GetVirtualDevice().Key]; info != nil {
			members[info.GroupInstanceKey]++
		}
	}
	for key, name := range x.groups {
		parts := 0
		for _, offers := range r.offers {
			for _, o := range offers {
				if o.Name == name {
					parts = len(o.Parts)
				}
			}
		}
		if parts == 0 || parts != members[key] {
			return wrong
		}
		delete(members, key)
	}
	if len(members) > 0 {
		return wrong
	}
	return nil
}
