package main

// What runs inside of VMs, as far as vCenter sees it: addresses, and whether it obeys.

import (
	"fmt"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// guests is how they behave.
type guests struct {
	Addresses bool `json:"addresses"` // they get an address after power-on
	Millis    int  `json:"ms"`        // so long after it
	Shutdown  bool `json:"shutdown"`  // they obey when told to shut down

	count int
}

// speak has the guest of a VM tell its address when its time has come, if it is still on then.
func (r *rig) speak(vm *simulator.VirtualMachine) {
	if !r.guests.Addresses {
		return
	}
	r.guests.count++
	ip := fmt.Sprintf("10.%d.%d.%d", 64+r.guests.count/62500%64, r.guests.count/250%250, r.guests.count%250+2)
	if r.guests.Millis == 0 {
		r.tellAddress(vm, ip)
		return
	}
	boot := vm.Summary.Runtime.BootTime
	time.AfterFunc(time.Duration(r.guests.Millis)*time.Millisecond, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && vm.Summary.Runtime.BootTime == boot {
			r.tellAddress(vm, ip)
		}
	})
}

func (r *rig) tellAddress(vm *simulator.VirtualMachine, ip string) {
	nic := types.GuestNicInfo{Network: "VM Network", IpAddress: []string{ip}, Connected: true, DeviceConfigId: -1,
		IpConfig: &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{
			{IpAddress: ip, PrefixLength: 9, State: "preferred"}}}}
	for _, d := range vm.Config.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			nic.DeviceConfigId = d.GetVirtualDevice().Key
			nic.MacAddress = card.GetVirtualEthernetCard().MacAddress
			break
		}
	}
	update(vm, change("guest.net", []types.GuestNicInfo{nic}), change("guest.ipAddress", ip),
		change("guest.hostName", vm.Name), change("guest.toolsRunningStatus", "guestToolsRunning"),
		change("summary.guest.ipAddress", ip))
}

// silence takes from a VM that is off what its guest had told.
func (r *rig) silence(vm *simulator.VirtualMachine) {
	update(vm, change("guest.net", []types.GuestNicInfo{}), change("guest.ipAddress", ""),
		change("guest.toolsRunningStatus", "guestToolsNotRunning"), change("summary.guest.ipAddress", ""))
}
