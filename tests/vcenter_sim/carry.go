package main

// Carrying an order out: what vCenter would refuse is refused, the library does the rest, and what
// it leaves out is put right.

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// bodies are the orders that get a task of ours, by the name of the method.
var bodies = map[string]reflect.Type{}

func init() {
	for _, b := range []soap.HasFault{
		&methods.CloneVM_TaskBody{}, &methods.ReconfigVM_TaskBody{}, &methods.UpgradeVM_TaskBody{},
		&methods.PowerOnVM_TaskBody{}, &methods.PowerOffVM_TaskBody{}, &methods.RelocateVM_TaskBody{},
		&methods.Destroy_TaskBody{}, &methods.CreateSnapshot_TaskBody{},
		&methods.ReconfigureComputeResource_TaskBody{},
		&methods.EnterMaintenanceMode_TaskBody{}, &methods.ExitMaintenanceMode_TaskBody{},
	} {
		kind := reflect.TypeOf(b).Elem()
		bodies[strings.TrimSuffix(kind.Name(), "Body")] = kind
	}
}

// library has an order carried out by the library's simulator, and takes its task away.
func (r *rig) library(m *simulator.Method) (types.AnyType, *refusal) {
	body := reflect.New(bodies[m.Name])
	body.Elem().FieldByName("Req").Set(reflect.ValueOf(m.Body))
	call := body.Interface().(soap.HasFault)
	if err := r.svc.RoundTrip(context.Background(), call, call); err != nil {
		f, _ := soap.ToSoapFault(err).VimFault().(types.BaseMethodFault)
		return nil, refuse(f, words(f, soap.ToSoapFault(err).String))
	}
	ref := body.Elem().FieldByName("Res").Elem().FieldByName("Returnval").Interface().(reference)
	task := simulator.Map.Get(ref).(*simulator.Task)
	simulator.Map.Remove(ref)
	if e := task.Info.Error; e != nil {
		return nil, refuse(e.Fault, words(e.Fault, ""))
	}
	return task.Info.Result, nil
}

// words are what vCenter says of a fault.
func words(f types.BaseMethodFault, said string) string {
	switch f := f.(type) {
	case *types.InvalidPowerState:
		state := map[types.VirtualMachinePowerState]string{"poweredOn": "Powered on", "poweredOff": "Powered off"}
		return fmt.Sprintf("The attempted operation cannot be performed in the current state (%s).", state[f.ExistingState])
	case *types.InvalidArgument:
		return "A specified parameter was not correct: " + f.InvalidProperty
	case *types.NotSupported:
		return "The operation is not supported on the object."
	}
	if said == "" {
		said = "The operation failed: " + reflect.TypeOf(f).Elem().Name()
	}
	return said
}

func (r *rig) carryOut(o *order) (types.AnyType, *refusal) {
	if f := r.failure(o.request.Name, o.entity, ""); f != nil {
		return nil, f
	}
	m := o.request
	vm := vmOf(m.This)
	switch q := m.Body.(type) {
	case *types.CloneVM_Task:
		return r.clone(vm, m, q)
	case *types.ReconfigVM_Task:
		return nil, r.reconfigure(vm, m, q, o.extra)
	case *types.PowerOnVM_Task:
		return nil, r.powerOn(vm, m)
	case *types.RelocateVM_Task:
		return nil, r.relocate(vm, m, q)
	case *types.UpgradeVM_Task:
		return nil, r.upgrade(vm, m, q)
	}
	result, fault := r.library(m)
	if fault != nil {
		return nil, fault
	}
	switch m.Body.(type) {
	case *types.PowerOffVM_Task, *types.Destroy_Task:
		if vm != nil {
			r.nowOff(vm)
		}
	case *types.CreateSnapshot_Task:
		update(vm, change("snapshot", vm.Snapshot))
	case *types.EnterMaintenanceMode_Task, *types.ExitMaintenanceMode_Task:
		h := hostOf(m.This)
		update(h, change("runtime.inMaintenanceMode", h.Runtime.InMaintenanceMode))
	case *types.ReconfigureComputeResource_Task:
		if c, ok := simulator.Map.Get(m.This).(*simulator.ClusterComputeResource); ok {
			update(c, change("configurationEx", c.ConfigurationEx))
		}
	}
	return result, nil
}

// nowOff frees what a VM had that is off, or gone, and tells it.
func (r *rig) nowOff(vm *simulator.VirtualMachine) {
	devices := copyDevices(vm.Config.Hardware.Device)
	for _, d := range devices {
		if b, ok := d.GetVirtualDevice().Backing.(*types.VirtualPCIPassthroughDynamicBackingInfo); ok {
			b.AssignedId = ""
		}
	}
	r.drop(vm.Self)
	r.publishAll()
	if vmOf(vm.Self) == nil {
		delete(r.groups, vm.Self)
		return
	}
	update(vm, change("config.hardware.device", devices))
	r.silence(vm)
}

func (r *rig) upgrade(vm *simulator.VirtualMachine, m *simulator.Method, q *types.UpgradeVM_Task) *refusal {
	was := vm.Config.Version
	if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
		return powerState(vm, types.VirtualMachinePowerStatePoweredOff)
	}
	to := q.Version
	if to == "" {
		to = newestVersion
	}
	switch {
	case hwVersion(to) > hwVersion(newestVersion) || hwVersion(to) < 4:
		return refuse(&types.InvalidArgument{InvalidProperty: "version"}, "A specified parameter was not correct: version")
	case hwVersion(to) <= hwVersion(was):
		return refuse(&types.AlreadyUpgraded{}, "The virtual machine is already up-to-date.")
	}
	update(vm, change("config.version", to))
	return nil
}

// newestVersion is the newest hardware version that the hosts know.
const newestVersion = "vmx-21"

func powerState(vm *simulator.VirtualMachine, wanted types.VirtualMachinePowerState) *refusal {
	f := &types.InvalidPowerState{RequestedState: wanted, ExistingState: vm.Runtime.PowerState}
	return refuse(f, words(f, ""))
}

func (r *rig) relocate(vm *simulator.VirtualMachine, m *simulator.Method, q *types.RelocateVM_Task) *refusal {
	to := q.Spec.Host
	if to != nil {
		if f := r.usable(*to); f != nil {
			return f
		}
		if q.Spec.Pool == nil && *hostOf(*to).Parent != *hostOf(*vm.Runtime.Host).Parent {
			return refuse(&types.InvalidArgument{InvalidProperty: "spec.pool"}, "A specified parameter was not correct: spec.pool")
		}
		on := vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		if on && len(passthrough(vm.Config.Hardware.Device)) > 0 {
			return refuse(&types.DeviceNotSupported{Device: "PCI device 0"},
				"Currently connected device 'PCI device 0' is not supported on the destination host.")
		}
		if f := r.failure(m.Name, vm.Name, hostOf(*to).Name); f != nil {
			return f
		}
		q.Spec.Host = nil // the library forgets where the VM was
	}
	if _, fault := r.library(m); fault != nil {
		return fault
	}
	if to != nil {
		move(vm, *to)
	}
	return nil
}
