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
	Addresses bool    `json:"addresses"` // they get an address after power-on
	Millis    int     `json:"ms"`        // so long after it
	Shutdown  bool    `json:"shutdown"`  // they obey when told to shut down
	Others    []other `json:"others"`    // what else they tell, as soon as they are on

	count int
}

// other are addresses that a guest reports besides its own.
type other struct {
	Mac       string   `json:"mac"` // of an interface of the guest; empty: of the VM's first card
	Addresses []string `json:"addresses"`
}

// speak has the guest of a VM tell its address when its time has come, if it is still on then.
func (r *rig) speak(vm *simulator.VirtualMachine) {
	if len(r.guests.Others) > 0 {
		r.tellAddress(vm, "")
	}
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

// speakUp has all guests that are on and have no address tell one.
func (r *rig) speakUp() {
	for _, e := range simulator.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && !hasAddress(vm) {
			r.speak(vm)
		}
	}
}

func hasAddress(vm *simulator.VirtualMachine) bool {
	for _, nic := range vm.Guest.Net {
		if nic.IpConfig != nil {
			return true
		}
	}
	return false
}

// tellAddress has a guest tell its address, unless it is empty, and what it reports besides. What it
// tells first is its main address to vCenter.
func (r *rig) tellAddress(vm *simulator.VirtualMachine, ip string) {
	nic := types.GuestNicInfo{Network: "VM Network", Connected: true, DeviceConfigId: -1}
	if ip != "" {
		nic.IpAddress = []string{ip}
		nic.IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{
			{IpAddress: ip, PrefixLength: 9, State: "preferred"}}}
	}
	nics := []types.GuestNicInfo{}
	for _, o := range r.guests.Others {
		if o.Mac == "" {
			nic.IpAddress = append(nic.IpAddress, o.Addresses...)
		} else {
			nics = append(nics, types.GuestNicInfo{IpAddress: o.Addresses, MacAddress: o.Mac, Connected: true, DeviceConfigId: -1})
		}
		if ip == "" && len(o.Addresses) > 0 {
			ip = o.Addresses[0]
		}
	}
	for _, d := range vm.Config.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			nic.DeviceConfigId = d.GetVirtualDevice().Key
			nic.MacAddress = card.GetVirtualEthernetCard().MacAddress
			break
		}
	}
	update(vm, change("guest.net", append(nics, nic)), change("guest.ipAddress", ip),
		change("guest.hostName", vm.Name), change("guest.toolsRunningStatus", "guestToolsRunning"),
		change("summary.guest.ipAddress", ip))
}

// silence takes from a VM that is off what its guest had told.
func (r *rig) silence(vm *simulator.VirtualMachine) {
	update(vm, change("guest.net", []types.GuestNicInfo{}), change("guest.ipAddress", ""),
		change("guest.toolsRunningStatus", "guestToolsNotRunning"), change("summary.guest.ipAddress", ""))
}
