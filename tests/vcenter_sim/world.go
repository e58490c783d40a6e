package main

// What the simulated world consists of: the inventory file, and who uses what in it.

import (
	"encoding/json"
	"fmt"
	"io/ioutil"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

type reference = types.ManagedObjectReference

// profile is a vGPU type of a board.
type profile struct {
	Name    string `json:"name"`
	FbGiB   int64  `json:"fbGiB"`
	Class   string `json:"class"`   // compute | quadro
	Sharing string `json:"sharing"` // timeSliced | mig
	Slices  int64  `json:"slices"`  // of the seven compute slices of a board, for mig
}

// gpu is a PCI device that VMs can have: a GPU, or a network card that works with one.
type gpu struct {
	ID         string    `json:"id"` // 0000:3b:00.0
	Vendor     uint16    `json:"vendorId"`
	Device     uint16    `json:"deviceId"`
	SubVendor  uint16    `json:"subVendorId"`
	SubDevice  uint16    `json:"subDeviceId"`
	Class      uint16    `json:"classId"` // 0: a 3D controller
	Name       string    `json:"name"`
	VendorName string    `json:"vendorName"`
	FbGiB      int64     `json:"fbGiB"`
	Mode       string    `json:"mode"`     // passthrough | sharedDirect | direct (passthrough is off)
	VgpuMode   string    `json:"vgpuMode"` // sameSize | mixedSize | multiInstanceGpu
	Label      string    `json:"label"`
	Bridge     string    `json:"bridge"`
	Profiles   []profile `json:"profiles"`

	users map[reference][]string // of each VM the profiles; "" = the whole device
}

// deviceGroup is a vendor device group that a host offers, one part for each of its devices.
type deviceGroup struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Parts       []groupPart `json:"parts"`
}

type groupPart struct {
	Kind    string `json:"kind"` // pciPassthru | nvidiaVgpu | sriovNic | dvx
	Name    string `json:"name"`
	Vendor  uint16 `json:"vendorId"`
	Device  uint16 `json:"deviceId"`
	Profile string `json:"profile"`
	Label   string `json:"label"`
}

type clusterRequest struct {
	DRS        *bool               `json:"drs"`
	HostGroups map[string][]string `json:"hostGroups"`
	VMGroups   map[string][]string `json:"vmGroups"`
	MustRun    map[string]string   `json:"mustRun"` // VM group -> host group
}

type templateRequest struct {
	Host     string          `json:"host"` // where it is registered
	Version  string          `json:"version"`
	Firmware string          `json:"firmware"`
	NestedHV bool            `json:"nestedHV"`
	Devices  []deviceRequest `json:"devices"`
}

// deviceRequest is a device that a template has already: a vGPU, or a dynamic device.
type deviceRequest struct {
	Profile string `json:"profile"`
	Vendor  int32  `json:"vendorId"`
	Device  int32  `json:"deviceId"`
	Label   string `json:"label"`
}

type inventory struct {
	Hosts        map[string][]*gpu          `json:"hosts"`
	DeviceGroups map[string][]deviceGroup   `json:"deviceGroups"` // by host
	Clusters     map[string]clusterRequest  `json:"clusters"`
	Templates    map[string]templateRequest `json:"templates"`
}

func readInventory(file string) (*inventory, error) {
	in := &inventory{}
	if file == "" {
		return in, nil
	}
	b, err := ioutil.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, in)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return in, nil
}

// rig is the vCenter. mu is held while anything is decided or changed, one request at a time; the
// library's own locks are taken inside of it, never around it, but for QueryConfigTarget, whose
// browser that no other call locks.
type rig struct {
	mu       sync.Mutex
	svc      *simulator.Service
	api      string
	hosts    map[reference][]*gpu
	offers   map[reference][]deviceGroup
	defaults map[reference]string // hostDefaultGraphicsType, where it was set by hand
	groups   map[reference]map[int32]string

	orders   []*order
	paces    []*pace
	mischief []*mischief
	requests map[string]int
	sessions sessions
	guests   guests
}

func newRig(in *inventory, svc *simulator.Service, api string) *rig {
	r := &rig{
		svc: svc, api: api, requests: map[string]int{},
		hosts: map[reference][]*gpu{}, offers: map[reference][]deviceGroup{},
		defaults: map[reference]string{}, groups: map[reference]map[int32]string{},
		sessions: newSessions(), guests: guests{Addresses: true, Shutdown: true},
	}
	for _, e := range simulator.Map.All("HostSystem") {
		name := e.Entity().Name
		for _, g := range in.Hosts[name] {
			g.users = map[reference][]string{}
			if g.SubVendor == 0 {
				g.SubVendor, g.SubDevice = g.Vendor, 1
			}
			if g.Class == 0 {
				g.Class = 0x302
			}
			if g.VendorName == "" {
				g.VendorName = "NVIDIA Corporation"
			}
		}
		r.hosts[e.Reference()] = in.Hosts[name]
		r.offers[e.Reference()] = in.DeviceGroups[name]
	}
	return r
}

func hostOf(ref reference) *simulator.HostSystem {
	h, _ := simulator.Map.Get(ref).(*simulator.HostSystem)
	return h
}

func vmOf(ref reference) *simulator.VirtualMachine {
	vm, _ := simulator.Map.Get(ref).(*simulator.VirtualMachine)
	return vm
}

// named finds an entity of a kind by its name.
func named(kind, name string) mo.Entity {
	for _, e := range simulator.Map.All(kind) {
		if e.Entity().Name == name {
			return e
		}
	}
	return nil
}
