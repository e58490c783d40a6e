package main

// The truth, for tests: what VMs there are, and who holds which GPU.

import (
	"sort"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type truth struct {
	VMs      []vmTruth      `json:"vms"`
	GPUs     []gpuTruth     `json:"gpus"`
	Hosts    []hostTruth    `json:"hosts"`
	Tasks    []taskTruth    `json:"tasks"`
	Requests map[string]int `json:"requests"`
}

type vmTruth struct {
	Ref          string            `json:"ref"`
	Name         string            `json:"name"`
	InstanceUUID string            `json:"instanceUuid"`
	BiosUUID     string            `json:"biosUuid"`
	On           bool              `json:"on"`
	Template     bool              `json:"template"`
	Host         string            `json:"host"`
	Version      string            `json:"version"`
	MemoryLocked bool              `json:"memoryLocked"`
	IP           string            `json:"ip"`
	Extra        map[string]string `json:"extra"`
	Devices      []deviceTruth     `json:"devices"`
}

type deviceTruth struct {
	Key      int32    `json:"key"`
	Profile  string   `json:"profile,omitempty"`
	Allowed  [][2]int `json:"allowed,omitempty"` // vendor and device
	Label    string   `json:"label,omitempty"`
	Assigned string   `json:"assigned,omitempty"`
	Fixed    string   `json:"fixed,omitempty"`
	Group    string   `json:"group,omitempty"`
}

type gpuTruth struct {
	Host  string              `json:"host"`
	ID    string              `json:"id"`
	Name  string              `json:"name"`
	Label string              `json:"label"`
	Mode  string              `json:"mode"`
	Users map[string][]string `json:"users"` // of each VM the profiles, "" = the whole device
}

type hostTruth struct {
	Ref         string `json:"ref"`
	Name        string `json:"name"`
	Connected   bool   `json:"connected"`
	Maintenance bool   `json:"maintenance"`
}

type taskTruth struct {
	Ref    string `json:"ref"`
	Method string `json:"method"`
	VM     string `json:"vm"`
	State  string `json:"state"`
	Fault  string `json:"fault,omitempty"`
}

func (r *rig) state() truth {
	t := truth{VMs: []vmTruth{}, GPUs: []gpuTruth{}, Hosts: []hostTruth{}, Tasks: []taskTruth{}, Requests: r.requests}
	for _, e := range simulator.Map.All("VirtualMachine") {
		t.VMs = append(t.VMs, r.vmState(e.(*simulator.VirtualMachine)))
	}
	for _, e := range simulator.Map.All("HostSystem") {
		h := e.(*simulator.HostSystem)
		t.Hosts = append(t.Hosts, hostTruth{h.Self.Value, h.Name,
			h.Runtime.ConnectionState == types.HostSystemConnectionStateConnected, h.Runtime.InMaintenanceMode})
		for _, g := range r.hosts[h.Self] {
			users := map[string][]string{}
			for ref, ps := range g.users {
				if vm := vmOf(ref); vm != nil {
					users[vm.Name] = ps
				} else {
					users[ref.Value] = ps // held by a VM that is no more: a fault of ours
				}
			}
			t.GPUs = append(t.GPUs, gpuTruth{h.Name, g.ID, g.Name, g.Label, g.Mode, users})
		}
	}
	for _, o := range r.orders {
		fault := ""
		if o.task.Info.Error != nil {
			fault = o.task.Info.Error.LocalizedMessage
		}
		t.Tasks = append(t.Tasks, taskTruth{o.task.Self.Value, o.request.Name, o.entity, string(o.task.Info.State), fault})
	}
	sort.Slice(t.VMs, func(i, j int) bool { return t.VMs[i].Name < t.VMs[j].Name })
	sort.Slice(t.Hosts, func(i, j int) bool { return t.Hosts[i].Name < t.Hosts[j].Name })
	sort.SliceStable(t.GPUs, func(i, j int) bool { return t.GPUs[i].Host < t.GPUs[j].Host })
	return t
}

func (r *rig) vmState(vm *simulator.VirtualMachine) vmTruth {
	v := vmTruth{Ref: vm.Self.Value, Name: vm.Name, InstanceUUID: vm.Config.InstanceUuid, BiosUUID: vm.Config.Uuid,
		On:       vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn,
		Template: vm.Config.Template, Host: hostOf(*vm.Runtime.Host).Name, Version: vm.Config.Version,
		MemoryLocked: isTrue(vm.Config.MemoryReservationLockedToMax), IP: vm.Guest.IpAddress,
		Extra: map[string]string{}, Devices: []deviceTruth{}}
	for _, o := range vm.Config.ExtraConfig {
		value, _ := o.GetOptionValue().Value.(string)
		v.Extra[o.GetOptionValue().Key] = value
	}
	for _, d := range passthrough(vm.Config.Hardware.Device) {
		t := deviceTruth{Key: d.GetVirtualDevice().Key}
		if ours, ok := d.(*VirtualPCIPassthrough); ok && ours.DeviceGroupInfo != nil {
			t.Group = r.groups[vm.Self][ours.DeviceGroupInfo.GroupInstanceKey]
		}
		switch b := d.GetVirtualDevice().Backing.(type) {
		case *types.VirtualPCIPassthroughVmiopBackingInfo:
			t.Profile = b.Vgpu
		case *types.VirtualPCIPassthroughDynamicBackingInfo:
			t.Label, t.Assigned = b.CustomLabel, b.AssignedId
			for _, a := range b.AllowedDevice {
				t.Allowed = append(t.Allowed, [2]int{int(a.VendorId), int(a.DeviceId)})
			}
		case *types.VirtualPCIPassthroughDeviceBackingInfo:
			t.Fixed = b.Id
		}
		v.Devices = append(v.Devices, t)
	}
	return v
}
