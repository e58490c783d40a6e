package main

// VMs whose files vCenter cannot read, as when their datastore is lost: they stay in the inventory
// and run on, but vCenter tells no configuration of them, and does not find them by what is in it.

import (
	"fmt"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// unreadable are those VMs, for the collectors of all sessions.
var unreadable = struct {
	sync.Mutex
	all map[reference]bool
}{all: map[reference]bool{}}

func isUnreadable(ref reference) bool {
	unreadable.Lock()
	defer unreadable.Unlock()
	return unreadable.all[ref]
}

type unreadableRequest struct {
	VM         string `json:"vm"`
	Unreadable bool   `json:"unreadable"`
}

func changeReadable(w *unreadableRequest) error {
	vm, _ := named("VirtualMachine", w.VM).(*simulator.VirtualMachine)
	if vm == nil {
		return fmt.Errorf("no VM %q", w.VM)
	}
	unreadable.Lock()
	unreadable.all[vm.Self] = w.Unreadable
	unreadable.Unlock()
	tell(vm, change("config", nil), change("runtime.connectionState", nil))
	return nil
}

// RetrievePropertiesEx leaves out what vCenter cannot read.
func (pc *PropertyCollector) RetrievePropertiesEx(ctx *simulator.Context, req *types.RetrievePropertiesEx) soap.HasFault {
	body := pc.PropertyCollector.RetrievePropertiesEx(ctx, req)
	res, ok := body.(*methods.RetrievePropertiesExBody)
	if !ok || res.Res == nil || res.Res.Returnval == nil {
		return body
	}
	for i := range res.Res.Returnval.Objects {
		object := &res.Res.Returnval.Objects[i]
		if !isUnreadable(object.Obj) {
			continue
		}
		var left []types.DynamicProperty
		for _, p := range object.PropSet {
			if p.Name == "runtime.connectionState" {
				p.Val = types.VirtualMachineConnectionStateInaccessible
			}
			if p.Name != "config" && !strings.HasPrefix(p.Name, "config.") {
				left = append(left, p)
			}
		}
		object.PropSet = left
	}
	return body
}

// findsUnreadable says whether what is searched for by its UUID is such a VM.
func findsUnreadable(q *types.FindByUuid) bool {
	for _, e := range simulator.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		if q.VmSearch && isUnreadable(vm.Self) && (q.Uuid == vm.Config.Uuid || q.Uuid == vm.Config.InstanceUuid) {
			return true
		}
	}
	return false
}
