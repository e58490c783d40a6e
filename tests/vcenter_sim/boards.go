package main

// What fits on a GPU, and who has it.

import (
	"github.com/vmware/govmomi/vim25/types"
)

const computeSlices = 7

func (g *gpu) profile(name string) profile {
	for _, p := range g.Profiles {
		if p.Name == name {
			return p
		}
	}
	return profile{}
}

func (g *gpu) used() (memory, slices int64) {
	for _, ps := range g.users {
		for _, p := range ps {
			if p == "" {
				return g.FbGiB, computeSlices
			}
			memory += g.profile(p).FbGiB
			slices += g.profile(p).Slices
		}
	}
	return memory, slices
}

// fits says whether one more vGPU of this profile can start here. A board in pieces (MIG) takes
// pieces only; time-sliced vGPUs of one board have one framebuffer size unless its mode is
// mixedSize.
func (g *gpu) fits(name string) bool {
	p := g.profile(name)
	memory, slices := g.used()
	mig := g.VgpuMode == "multiInstanceGpu"
	if g.Mode != "sharedDirect" || p.Name == "" || memory+p.FbGiB > g.FbGiB ||
		(p.Sharing == "mig") != mig || slices+p.Slices > computeSlices {
		return false
	}
	if mig || g.VgpuMode == "mixedSize" {
		return true
	}
	for _, ps := range g.users {
		for _, q := range ps {
			if g.profile(q).FbGiB != p.FbGiB {
				return false
			}
		}
	}
	return true
}

// is says whether the device is what a dynamic backing asks for.
func (g *gpu) is(b *types.VirtualPCIPassthroughDynamicBackingInfo) bool {
	if g.Mode != "passthrough" || b.CustomLabel != "" && b.CustomLabel != g.Label {
		return false
	}
	for _, a := range b.AllowedDevice {
		if a.VendorId == int32(g.Vendor) && a.DeviceId == int32(g.Device) &&
			(a.SubVendorId == 0 || a.SubVendorId == int32(g.SubVendor)) &&
			(a.SubDeviceId == 0 || a.SubDeviceId == int32(g.SubDevice)) {
			return true
		}
	}
	return false
}

func (r *rig) give(vm reference, g *gpu, profile string) {
	g.users[vm] = append(g.users[vm], profile)
}

// take assigns every passthrough device of the VM on one host, or none. The dynamic backings of
// devices are told what they were assigned.
func (r *rig) take(host, vm reference, devices []types.BaseVirtualDevice) bool {
	for _, d := range devices {
		if !r.takeOne(host, vm, d.GetVirtualDevice().Backing) {
			r.drop(vm)
			return false
		}
	}
	return true
}

func (r *rig) takeOne(host, vm reference, backing types.BaseVirtualDeviceBackingInfo) bool {
	var matches func(*gpu) bool
	profile := ""
	switch b := backing.(type) {
	case *types.VirtualPCIPassthroughVmiopBackingInfo:
		profile = b.Vgpu
		matches = func(g *gpu) bool { return r.defaultGraphics(host) == "sharedDirect" && g.fits(b.Vgpu) }
	case *types.VirtualPCIPassthroughDynamicBackingInfo:
		matches = func(g *gpu) bool { return len(g.users) == 0 && g.is(b) }
	case *types.VirtualPCIPassthroughDeviceBackingInfo:
		matches = func(g *gpu) bool { return len(g.users) == 0 && g.Mode == "passthrough" && g.ID == b.Id }
	default:
		return true
	}
	for _, g := range r.hosts[host] {
		if matches(g) {
			r.give(vm, g, profile)
			if b, ok := backing.(*types.VirtualPCIPassthroughDynamicBackingInfo); ok {
				b.AssignedId = "pcip:" + g.ID
			}
			return true
		}
	}
	return false
}

// drop takes from a VM whatever it holds.
func (r *rig) drop(vm reference) {
	for _, gs := range r.hosts {
		for _, g := range gs {
			delete(g.users, vm)
		}
	}
}

// dropOne takes from a VM one device that it holds: a vGPU of a profile, or the device with an id.
func (r *rig) dropOne(vm reference, profile, id string) {
	for _, gs := range r.hosts {
		for _, g := range gs {
			if id != "" && g.ID != id {
				continue
			}
			for i, p := range g.users[vm] {
				if p != profile {
					continue
				}
				if rest := append(append([]string{}, g.users[vm][:i]...), g.users[vm][i+1:]...); len(rest) > 0 {
					g.users[vm] = rest
				} else {
					delete(g.users, vm)
				}
				return
			}
		}
	}
}

// heldMemory is the memory in GiB of the whole devices that a VM holds and that need large BARs.
func (r *rig) heldMemory(vm reference) (sum int64) {
	for _, gs := range r.hosts {
		for _, g := range gs {
			if ps := g.users[vm]; len(ps) > 0 && ps[0] == "" && g.FbGiB > 16 {
				sum += g.FbGiB
			}
		}
	}
	return sum
}
