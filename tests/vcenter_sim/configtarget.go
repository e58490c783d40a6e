package main

// What ConfigTarget, the catalogue of what VMs can be given, says of the GPUs.

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

type envBrowser struct {
	simulator.EnvironmentBrowser
	r *rig
}

// The API of 7.0.3 has two lists that the packaged library has no types for.
type vgpuDeviceInfo struct {
	types.VirtualMachineTargetInfo
	DeviceName            string `xml:"deviceName"`
	DeviceVendorID        int64  `xml:"deviceVendorId"`
	MaxFbSizeInGib        int64  `xml:"maxFbSizeInGib"`
	TimeSlicedCapable     bool   `xml:"timeSlicedCapable"`
	MigCapable            bool   `xml:"migCapable"`
	ComputeProfileCapable bool   `xml:"computeProfileCapable"`
	QuadroProfileCapable  bool   `xml:"quadroProfileCapable"`
}
type vgpuProfileInfo struct {
	types.VirtualMachineTargetInfo
	ProfileName    string `xml:"profileName"`
	DeviceVendorID int64  `xml:"deviceVendorId"`
	FbSizeInGib    int64  `xml:"fbSizeInGib"`
	ProfileSharing string `xml:"profileSharing"`
	ProfileClass   string `xml:"profileClass"`
}
type configTarget struct {
	types.ConfigTarget
	VgpuDeviceInfo  []vgpuDeviceInfo  `xml:"vgpuDeviceInfo,omitempty"`
	VgpuProfileInfo []vgpuProfileInfo `xml:"vgpuProfileInfo,omitempty"`

	VendorDeviceGroupInfo []vendorDeviceGroupInfo `xml:"vendorDeviceGroupInfo,omitempty"`
}

// The API of 8.0 has groups of devices, which a VM is given together.
type vendorDeviceGroupInfo struct {
	types.VirtualMachineTargetInfo
	DeviceGroupName        string                `xml:"deviceGroupName"`
	DeviceGroupDescription string                `xml:"deviceGroupDescription,omitempty"`
	ComponentDeviceInfo    []componentDeviceInfo `xml:"componentDeviceInfo,omitempty"`
}
type componentDeviceInfo struct {
	Type           string                  `xml:"type"`
	VendorName     string                  `xml:"vendorName"`
	DeviceName     string                  `xml:"deviceName"`
	IsConfigurable bool                    `xml:"isConfigurable"`
	Device         types.BaseVirtualDevice `xml:"device,typeattr"`
}

func (p *groupPart) component() componentDeviceInfo {
	device := &types.VirtualPCIPassthrough{}
	if p.Profile != "" {
		device.Backing = &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: p.Profile}
	} else {
		device.Backing = &types.VirtualPCIPassthroughDynamicBackingInfo{CustomLabel: p.Label,
			AllowedDevice: []types.VirtualPCIPassthroughAllowedDevice{
				{VendorId: int32(p.Vendor), DeviceId: int32(p.Device)}}}
	}
	return componentDeviceInfo{p.Kind, "NVIDIA Corporation", p.Name, false, device}
}

// QueryConfigTargetResponse: the simulator takes the name of the XML element from the type.
type QueryConfigTargetResponse struct {
	Returnval *configTarget `xml:"returnval"`
}
type configTargetBody struct{ Res *QueryConfigTargetResponse }

func (b *configTargetBody) Fault() *soap.Fault { return nil }

func (b *envBrowser) QueryConfigTarget(ctx *simulator.Context, req *types.QueryConfigTarget) soap.HasFault {
	base := b.EnvironmentBrowser.QueryConfigTarget(ctx, req).(*methods.QueryConfigTargetBody)
	out := &configTarget{ConfigTarget: *base.Res.Returnval}
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	seen := map[string]bool{}
	once := func(k string, args ...interface{}) bool {
		k = fmt.Sprintf(k, args...)
		was := seen[k]
		seen[k] = true
		return !was
	}
	for _, ref := range b.r.owned(b.Self) {
		if req.Host != nil && *req.Host != ref {
			continue
		}
		h := hostOf(ref)
		if h == nil {
			continue
		}
		for _, o := range b.r.offers[ref] {
			if b.r.api < "8.0" || !once("group %s", o.Name) {
				continue
			}
			info := vendorDeviceGroupInfo{types.VirtualMachineTargetInfo{Name: o.Name}, o.Name, o.Description, nil}
			for i := range o.Parts {
				info.ComponentDeviceInfo = append(info.ComponentDeviceInfo, o.Parts[i].component())
			}
			out.VendorDeviceGroupInfo = append(out.VendorDeviceGroupInfo, info)
		}
		for _, g := range b.r.hosts[ref] {
			dv := int64(g.Device)<<16 | int64(g.Vendor)
			if g.Mode == "passthrough" {
				for i := range h.Hardware.PciDevice {
					if h.Hardware.PciDevice[i].Id == g.ID {
						out.PciPassthrough = append(out.PciPassthrough, &types.VirtualMachinePciPassthroughInfo{
							VirtualMachineTargetInfo: types.VirtualMachineTargetInfo{Name: g.ID},
							PciDevice:                h.Hardware.PciDevice[i], SystemId: h.Hardware.SystemInfo.Uuid})
					}
				}
				if once("dyn %d %d %s", g.Vendor, g.Device, g.Label) {
					out.DynamicPassthrough = append(out.DynamicPassthrough, types.VirtualMachineDynamicPassthroughInfo{
						VirtualMachineTargetInfo: types.VirtualMachineTargetInfo{Name: g.Name},
						VendorName:               g.VendorName, DeviceName: g.Name, CustomLabel: g.Label, VendorId: int32(g.Vendor), DeviceId: int32(g.Device)})
				}
				continue
			}
			if g.Mode != "sharedDirect" {
				continue
			}
			if once("dev %d", dv) {
				out.VgpuDeviceInfo = append(out.VgpuDeviceInfo, vgpuDeviceInfo{types.VirtualMachineTargetInfo{Name: g.Name}, g.Name, dv, g.FbGiB, true, g.VgpuMode == "multiInstanceGpu", true, true})
			}
			for _, p := range g.Profiles {
				if once("prof %s", p.Name) {
					ti := types.VirtualMachineTargetInfo{Name: p.Name}
					out.SharedGpuPassthroughTypes = append(out.SharedGpuPassthroughTypes, types.VirtualMachinePciSharedGpuPassthroughInfo{VirtualMachineTargetInfo: ti, Vgpu: p.Name})
					out.VgpuProfileInfo = append(out.VgpuProfileInfo, vgpuProfileInfo{ti, p.Name, dv, p.FbGiB, p.Sharing, p.Class})
				}
			}
		}
	}
	return &configTargetBody{&QueryConfigTargetResponse{out}}
}

func (r *rig) owned(eb reference) []reference {
	for _, kind := range []string{"ComputeResource", "ClusterComputeResource"} {
		for _, e := range simulator.Map.All(kind) {
			if c := computeResource(e); c != nil && *c.EnvironmentBrowser == eb {
				return c.Host
			}
		}
	}
	return nil
}
