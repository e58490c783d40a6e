package main

// Tasks as vCenter has them: queued, running, done. The library's are done when they are answered,
// so each order gets a task of ours, which may be held back or delayed, and which carries the order
// out when its time has come.

import (
	"path"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// refusal is why something was not done: vCenter's fault and its words.
type refusal = types.LocalizedMethodFault

func refuse(f types.BaseMethodFault, text string) *refusal {
	return &refusal{Fault: f, LocalizedMessage: text}
}

// order is a task that was asked for.
type order struct {
	task    *simulator.Task
	request *simulator.Method
	extra   extra  // what the library's types leave of the request
	entity  string // name of the VM, of a clone its name to be
	busy    *refusal

	release  chan struct{}
	released bool
	done     bool
}

// pace is how tasks of a method, on VMs of a name, are delayed or held.
type pace struct {
	Method string `json:"method"`
	VM     string `json:"vm"`
	Hold   bool   `json:"hold"`
	Millis int    `json:"ms"`
	After  bool   `json:"after"`  // carried out at once, and only told late
	Queued bool   `json:"queued"` // held before it runs
}

// glob says whether a name is meant by a pattern; an empty one means all.
func glob(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return pattern == "" || ok
}

func (r *rig) paceOf(o *order) *pace {
	for _, p := range r.paces {
		if glob(p.Method, o.request.Name) && glob(p.VM, o.entity) {
			return p
		}
	}
	return nil
}

// place takes an order: it is carried out now, or by and by.
func (r *rig) place(m *simulator.Method, x extra) reference {
	o := &order{request: m, extra: x, entity: r.entityName(m), release: make(chan struct{})}
	id := strings.TrimSuffix(m.Name, "_Task")
	o.task = simulator.CreateTask(m.This, strings.ToLower(id[:1])+id[1:], nil)
	o.task.Info.Name = m.Name
	o.task.Info.Cancelable = true
	o.busy = r.inProgress(o)
	r.orders = append(r.orders, o)
	if vm := vmOf(m.This); vm != nil {
		recent := append([]reference{}, vm.RecentTask...)
		if len(recent) > 9 {
			recent = recent[len(recent)-9:]
		}
		update(vm, change("recentTask", append(recent, o.task.Self)))
	}
	p := r.paceOf(o)
	switch {
	case p == nil || o.busy != nil:
		o.running()
		r.finish(o)
	case p.After:
		o.running()
		result, fault := r.carryOut(o)
		go r.wait(o, p, func() { o.end(result, fault) })
	default:
		go r.wait(o, p, func() { r.finish(o) })
	}
	return o.task.Self
}

// wait lets the time of an order pass, then ends it unless it was cancelled.
func (r *rig) wait(o *order, p *pace, end func()) {
	var half <-chan time.Time
	if !p.Hold {
		half = time.After(time.Duration(p.Millis) * time.Millisecond / 2)
	}
	begun := make(chan time.Time, 1)
	begun <- time.Now()
	switch {
	case p.Hold && p.Queued:
	case p.Hold:
		half = begun
	}
	select {
	case <-half:
	case <-o.release:
	}
	r.mu.Lock()
	if !o.done {
		o.running()
	}
	r.mu.Unlock()
	var rest <-chan time.Time
	if !p.Hold {
		rest = time.After(time.Duration(p.Millis) * time.Millisecond / 2)
	}
	select {
	case <-rest:
	case <-o.release:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !o.done {
		end()
	}
}

// inProgress is why a VM takes no order: it has one that is not done.
func (r *rig) inProgress(o *order) *refusal {
	clone := o.request.Name == "CloneVM_Task"
	for _, other := range r.orders {
		if other.done || other.request.This != o.request.This || vmOf(o.request.This) == nil {
			continue
		}
		theirs := other.request.Name == "CloneVM_Task"
		if clone && theirs && other.entity == o.entity {
			return duplicate(o.entity, other.request.This)
		}
		if !clone && !theirs {
			return refuse(&types.TaskInProgress{Task: other.task.Self}, "Another task is already in progress.")
		}
	}
	return nil
}

func (o *order) running() {
	if o.task.Info.State == types.TaskInfoStateQueued {
		now := time.Now()
		update(o.task, change("info.startTime", &now), change("info.state", types.TaskInfoStateRunning))
	}
}

func (r *rig) finish(o *order) {
	if o.busy != nil {
		o.end(nil, o.busy)
		return
	}
	o.end(r.carryOut(o))
}

func (o *order) end(result types.AnyType, fault *refusal) {
	o.done = true
	now := time.Now()
	changes := []types.PropertyChange{change("info.completeTime", &now)}
	if fault != nil {
		changes = append(changes, change("info.error", fault), change("info.state", types.TaskInfoStateError))
	} else {
		if result != nil {
			changes = append(changes, change("info.result", result))
		}
		changes = append(changes, change("info.state", types.TaskInfoStateSuccess))
	}
	update(o.task, changes...)
}

// cancel gives a task up that was not carried out yet; false: there is none such.
func (r *rig) cancel(task reference) bool {
	for _, o := range r.orders {
		if o.task.Self == task && !o.done {
			o.end(nil, refuse(&types.RequestCanceled{}, "The task was canceled by a user."))
			return true
		}
	}
	return false
}

// goOn ends every pace, and lets the tasks go on that were held.
func (r *rig) goOn(method, vm string) {
	kept := r.paces[:0]
	for _, p := range r.paces {
		if !glob(method, p.Method) || !glob(vm, p.VM) {
			kept = append(kept, p)
		}
	}
	r.paces = kept
	for _, o := range r.orders {
		if glob(method, o.request.Name) && glob(vm, o.entity) && !o.released {
			o.released = true
			close(o.release)
		}
	}
}

// forget removes the tasks that are done, as vCenter does after a while.
func (r *rig) forget() {
	kept := r.orders[:0]
	for _, o := range r.orders {
		if o.done {
			simulator.Map.Remove(o.task.Self)
		} else {
			kept = append(kept, o)
		}
	}
	r.orders = kept
}

func (r *rig) entityName(m *simulator.Method) string {
	if c, ok := m.Body.(*types.CloneVM_Task); ok {
		return c.Name
	}
	if vm := vmOf(m.This); vm != nil {
		return vm.Name
	}
	return m.This.Value
}
