package main

// What the properties of a host say of its GPUs.

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// HostPciPassthruInfo has what the library's type of the same name lacks.
type HostPciPassthruInfo struct {
	types.HostPciPassthruInfo
	HardwareLabel string `xml:"hardwareLabel,omitempty"`
}

func hexByte(s string) byte { v, _ := strconv.ParseUint(s, 16, 8); return byte(v) }

func (g *gpu) display() bool { return g.Class>>8 == 3 }

// defaultGraphics is the host's hostDefaultGraphicsType, without which no vGPU starts there.
func (r *rig) defaultGraphics(ref reference) string {
	if set := r.defaults[ref]; set != "" {
		return set
	}
	for _, g := range r.hosts[ref] {
		if g.Mode == "sharedDirect" {
			return g.Mode
		}
	}
	return "shared"
}

// publish tells in the properties of a host what its GPUs are and who has them. Only what has
// changed is told.
func (r *rig) publish(ref reference) {
	h := hostOf(ref)
	if h == nil {
		return // removed from the inventory
	}
	mine := map[string]bool{}
	for _, g := range r.hosts[ref] {
		mine[g.ID] = true
	}
	var pci []types.HostPciDevice
	for _, d := range h.Hardware.PciDevice {
		if !mine[d.Id] {
			pci = append(pci, d)
		}
	}
	cfg := types.HostConfigInfo{
		AssignableHardwareConfig: &types.HostAssignableHardwareConfig{},
		GraphicsConfig: &types.HostGraphicsConfig{HostDefaultGraphicsType: r.defaultGraphics(ref),
			SharedPassthruAssignmentPolicy: "consolidation"},
	}
	seen := map[string]bool{}
	for _, g := range r.hosts[ref] {
		pci = append(pci, g.pciDevice())
		r.tell(&cfg, g, seen)
	}
	var changes []types.PropertyChange
	differs := func(name string, was, is interface{}) {
		if !reflect.DeepEqual(was, is) {
			changes = append(changes, change(name, is))
		}
	}
	differs("hardware.pciDevice", h.Hardware.PciDevice, pci)
	differs("config.pciPassthruInfo", h.Config.PciPassthruInfo, cfg.PciPassthruInfo)
	differs("config.graphicsInfo", h.Config.GraphicsInfo, cfg.GraphicsInfo)
	differs("config.graphicsConfig", h.Config.GraphicsConfig, cfg.GraphicsConfig)
	differs("config.sharedPassthruGpuTypes", h.Config.SharedPassthruGpuTypes, cfg.SharedPassthruGpuTypes)
	differs("config.sharedGpuCapabilities", h.Config.SharedGpuCapabilities, cfg.SharedGpuCapabilities)
	differs("config.assignableHardwareConfig", h.Config.AssignableHardwareConfig, cfg.AssignableHardwareConfig)
	differs("config.assignableHardwareBinding", h.Config.AssignableHardwareBinding, cfg.AssignableHardwareBinding)
	if len(changes) > 0 {
		update(h, changes...)
	}
}

func (g *gpu) pciDevice() types.HostPciDevice {
	f := strings.FieldsFunc(g.ID, func(c rune) bool { return c == ':' || c == '.' })
	return types.HostPciDevice{Id: g.ID, ClassId: int16(g.Class),
		Bus: hexByte(f[1]), Slot: hexByte(f[2]), Function: hexByte(f[3]),
		VendorId: int16(g.Vendor), DeviceId: int16(g.Device),
		SubVendorId: int16(g.SubVendor), SubDeviceId: int16(g.SubDevice),
		VendorName: g.VendorName, DeviceName: g.Name, ParentBridge: g.Bridge}
}

// tell adds one device to what a host's configuration says.
func (r *rig) tell(cfg *types.HostConfigInfo, g *gpu, seen map[string]bool) {
	active := g.Mode == "passthrough"
	cfg.PciPassthruInfo = append(cfg.PciPassthruInfo, &HostPciPassthruInfo{
		types.HostPciPassthruInfo{Id: g.ID, DependentDevice: g.ID, PassthruCapable: true,
			PassthruEnabled: active, PassthruActive: active}, g.Label})
	if g.Label != "" {
		cfg.AssignableHardwareConfig.AttributeOverride = append(cfg.AssignableHardwareConfig.AttributeOverride,
			types.HostAssignableHardwareConfigAttributeOverride{
				InstanceId: "pcip:" + g.ID, Name: "hardwareLabel", Value: g.Label})
	}
	var users []reference
	for vm, ps := range g.users {
		users = append(users, vm)
		if ps[0] == "" {
			cfg.AssignableHardwareBinding = append(cfg.AssignableHardwareBinding,
				types.HostAssignableHardwareBinding{InstanceId: "pcip:" + g.ID, Vm: vm})
		}
	}
	sort.Slice(users, func(i, j int) bool { return users[i].Value < users[j].Value })
	if g.display() {
		info := types.HostGraphicsInfo{DeviceName: g.Name, VendorName: g.VendorName, PciId: g.ID,
			GraphicsType: "direct", MemorySizeInKB: g.FbGiB << 20, Vm: users}
		if g.Mode == "sharedDirect" {
			info.GraphicsType = "sharedDirect" + r.later("8.0.3", "vgpuMode", g.vgpuMode())
		}
		cfg.GraphicsInfo = append(cfg.GraphicsInfo, info)
	}
	for _, p := range g.Profiles {
		if g.Mode == "sharedDirect" && !seen[p.Name] {
			seen[p.Name] = true
			cfg.SharedPassthruGpuTypes = append(cfg.SharedPassthruGpuTypes, p.Name)
			cfg.SharedGpuCapabilities = append(cfg.SharedGpuCapabilities, types.HostSharedGpuCapabilities{
				Vgpu: p.Name, SuspendSupported: true, MigrateSupported: p.Sharing != "mig"})
		}
	}
}

func (g *gpu) vgpuMode() string {
	if g.VgpuMode == "" {
		return "sameSize"
	}
	return g.VgpuMode
}

// later is a mark for a property that the library's type has no field for, put behind the text of
// the property before it; `withLater` makes an element of it. Empty below that version of the API.
func (r *rig) later(since, name, value string) string {
	if r.api < since {
		return ""
	}
	return fmt.Sprintf("\u27e6%s=%s\u27e7", name, value)
}

func (r *rig) publishAll() {
	for ref := range r.hosts {
		r.publish(ref)
	}
}

// move registers a VM on another host.
func move(vm *simulator.VirtualMachine, to reference) {
	if *vm.Runtime.Host == to {
		return
	}
	from, host := hostOf(*vm.Runtime.Host), hostOf(to)
	simulator.Map.RemoveReference(from, &from.Vm, vm.Self)
	simulator.Map.AppendReference(host, &host.Vm, vm.Self)
	update(from, change("vm", from.Vm))
	update(host, change("vm", host.Vm))
	update(vm, change("runtime.host", &to), change("summary.runtime.host", &to))
}
