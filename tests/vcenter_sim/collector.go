package main

// A property collector that tells changes as vCenter's does. The library's looks four times a
// second, loses what changes while a client's first answer is made, tells nothing of a property
// deeper than the one that was changed, and confuses the collectors of two sessions.

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// gather is how long changes are collected before they are told together.
const gather = 5 * time.Millisecond

// PropertyCollector takes the place of the library's; its name is part of the protocol.
type PropertyCollector struct {
	simulator.PropertyCollector

	one     sync.Mutex // one request waits at a time
	mu      sync.Mutex // of what follows, but for what is known
	listens *listener
	filters []reference                      // the library's list is no other's to read while it is written
	known   map[reference]map[reference]bool // objects that each filter has told of
	version int
}

// CreatePropertyCollector makes another one for the same session.
func (pc *PropertyCollector) CreatePropertyCollector(ctx *simulator.Context, _ *types.CreatePropertyCollector) soap.HasFault {
	return &methods.CreatePropertyCollectorBody{Res: &types.CreatePropertyCollectorResponse{
		Returnval: ctx.Session.Put(&PropertyCollector{}).Reference()}}
}

// CreateFilter refuses what is not there; waiting clients get the new filter's objects.
func (pc *PropertyCollector) CreateFilter(ctx *simulator.Context, req *types.CreateFilter) soap.HasFault {
	seen := pc.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{SpecSet: []types.PropertyFilterSpec{req.Spec}})
	if fault := seen.Fault(); fault != nil {
		return &methods.CreateFilterBody{Fault_: fault}
	}
	filter := &simulator.PropertyFilter{}
	filter.PartialUpdates, filter.Spec = req.PartialUpdates, req.Spec
	ref := ctx.Session.Put(&PropertyFilter{*filter}).Reference()
	pc.mu.Lock()
	pc.filters = append(pc.filters, ref)
	l := pc.listens
	pc.mu.Unlock()
	if l != nil {
		l.hear(func() {})
	}
	return &methods.CreateFilterBody{Res: &types.CreateFilterResponse{Returnval: ref}}
}

// PropertyFilter is known to its session alone.
type PropertyFilter struct{ simulator.PropertyFilter }

// DestroyPropertyFilter forgets it.
func (f *PropertyFilter) DestroyPropertyFilter(ctx *simulator.Context, req *types.DestroyPropertyFilter) soap.HasFault {
	ctx.Session.Remove(req.This)
	return &methods.DestroyPropertyFilterBody{Res: &types.DestroyPropertyFilterResponse{}}
}

// live are the filters that were not destroyed.
func (pc *PropertyCollector) live(ctx *simulator.Context) (found []*PropertyFilter) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	var refs []reference
	for _, ref := range pc.filters {
		if f, ok := ctx.Session.Get(ref).(*PropertyFilter); ok {
			found, refs = append(found, f), append(refs, ref)
		}
	}
	pc.filters = refs
	return found
}

// listen begins to hear of changes.
func (pc *PropertyCollector) listen(ctx *simulator.Context) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.listens != nil {
		return
	}
	self := reference{Type: "PropertyCollector", Value: fmt.Sprintf("listener-%d", atomic.AddInt64(&listeners, 1))}
	pc.listens = &listener{self: self, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		dirty: map[reference]map[string]bool{}, gone: map[reference]bool{}}
	ctx.Map.AddHandler(pc.listens)
	hearers.Lock()
	hearers.all[pc.listens] = true
	hearers.Unlock()
}

// DestroyPropertyCollector ends waiting calls, too.
func (pc *PropertyCollector) DestroyPropertyCollector(ctx *simulator.Context, req *types.DestroyPropertyCollector) soap.HasFault {
	pc.CancelWaitForUpdates(&types.CancelWaitForUpdates{})
	for _, f := range pc.live(ctx) {
		ctx.Session.Remove(f.Self)
	}
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.listens != nil {
		ctx.Map.RemoveHandler(pc.listens)
		hearers.Lock()
		delete(hearers.all, pc.listens)
		hearers.Unlock()
	}
	ctx.Session.Remove(req.This)
	return &methods.DestroyPropertyCollectorBody{Res: &types.DestroyPropertyCollectorResponse{}}
}

// CancelWaitForUpdates ends waiting calls.
func (pc *PropertyCollector) CancelWaitForUpdates(*types.CancelWaitForUpdates) soap.HasFault {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.listens != nil {
		select {
		case pc.listens.stop <- struct{}{}:
		default:
		}
	}
	return &methods.CancelWaitForUpdatesBody{Res: new(types.CancelWaitForUpdatesResponse)}
}

// WaitForUpdates is the older form, without end.
func (pc *PropertyCollector) WaitForUpdates(ctx *simulator.Context, req *types.WaitForUpdates) soap.HasFault {
	res := pc.WaitForUpdatesEx(ctx, &types.WaitForUpdatesEx{This: req.This, Version: req.Version}).(*methods.WaitForUpdatesExBody)
	body := &methods.WaitForUpdatesBody{Fault_: res.Fault_}
	if res.Res != nil {
		body.Res = &types.WaitForUpdatesResponse{Returnval: *res.Res.Returnval}
	}
	return body
}

// WaitForUpdatesEx tells what is new to the filters, and waits until there is something.
func (pc *PropertyCollector) WaitForUpdatesEx(ctx *simulator.Context, req *types.WaitForUpdatesEx) soap.HasFault {
	pc.one.Lock()
	defer pc.one.Unlock()
	body := &methods.WaitForUpdatesExBody{}
	pc.listen(ctx)
	switch req.Version {
	case "":
		pc.known = map[reference]map[reference]bool{}
	case fmt.Sprint(pc.version):
	default:
		body.Fault_ = simulator.Fault("A specified version is not known.", new(types.InvalidCollectorVersion))
		return body
	}
	var timeout <-chan time.Time
	if o := req.Options; o != nil && o.MaxWaitSeconds != nil {
		timeout = time.After(time.Duration(*o.MaxWaitSeconds)*time.Second + gather)
	}
	for {
		set := pc.news(ctx)
		if len(set) > 0 || req.Version == "" {
			pc.version++
			body.Res = &types.WaitForUpdatesExResponse{Returnval: &types.UpdateSet{
				Version: fmt.Sprint(pc.version), FilterSet: set}}
			return body
		}
		select {
		case <-pc.listens.wake:
			time.Sleep(gather)
		case <-timeout:
			body.Res = &types.WaitForUpdatesExResponse{}
			return body
		case <-pc.listens.stop:
			body.Fault_ = simulator.Fault("The request was canceled.", new(types.RequestCanceled))
			return body
		}
	}
}

// news is what each filter has to tell.
func (pc *PropertyCollector) news(ctx *simulator.Context) (set []types.PropertyFilterUpdate) {
	dirty, tree := pc.listens.heard()
	for _, filter := range pc.live(ctx) {
		ref := filter.Self
		fu := types.PropertyFilterUpdate{Filter: ref}
		known := pc.known[ref]
		first := known == nil
		if first {
			known = map[reference]bool{}
			pc.known[ref] = known
		}
		for obj := range known {
			if pc.listens.isGone(obj) {
				delete(known, obj)
				fu.ObjectSet = append(fu.ObjectSet, types.ObjectUpdate{Obj: obj, Kind: types.ObjectUpdateKindLeave})
			}
		}
		entered := map[reference]bool{}
		if first || tree {
			for _, o := range pc.objects(ctx, filter.Spec) {
				if !known[o.Obj] && !pc.listens.isGone(o.Obj) {
					known[o.Obj], entered[o.Obj] = true, true
					fu.ObjectSet = append(fu.ObjectSet, types.ObjectUpdate{
						Obj: o.Obj, Kind: types.ObjectUpdateKindEnter, ChangeSet: assigned(o.PropSet, nil)})
				}
			}
		}
		for obj, names := range dirty {
			if known[obj] && !entered[obj] {
				if changes := pc.changed(ctx, filter.Spec.PropSet, obj, names); len(changes) > 0 {
					fu.ObjectSet = append(fu.ObjectSet, types.ObjectUpdate{
						Obj: obj, Kind: types.ObjectUpdateKindModify, ChangeSet: changes})
				}
			}
		}
		if len(fu.ObjectSet) > 0 {
			set = append(set, fu)
		}
	}
	return set
}
