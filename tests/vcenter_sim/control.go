package main

// The control endpoint: tests say here what is to happen, and ask what is. Plain HTTP, on loopback,
// JSON in and out; see README.md.

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// connections are those to the vCenter's own port, so that they can be cut.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]bool
}

func (c *connections) follow(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
	}
}

// control is the handler of the control endpoint.
func (r *rig) control(about interface{}, conns *connections) http.Handler {
	mux := http.NewServeMux()
	get := func(path string, tell func() interface{}) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			r.mu.Lock()
			defer r.mu.Unlock()
			_ = json.NewEncoder(w).Encode(tell())
		})
	}
	post := func(path string, into func() interface{}, do func(interface{}) error) {
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			wanted := into()
			decoder := json.NewDecoder(req.Body)
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(wanted); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.mu.Lock()
			err := do(wanted)
			r.mu.Unlock()
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	get("/about", func() interface{} { return about })
	get("/state", func() interface{} { return r.state() })
	post("/pace", func() interface{} { return &pace{} }, func(x interface{}) error {
		r.paces = append(r.paces, x.(*pace))
		return nil
	})
	post("/release", func() interface{} { return &pace{} }, func(x interface{}) error {
		r.goOn(x.(*pace).Method, x.(*pace).VM)
		return nil
	})
	post("/mischief", func() interface{} { return &mischief{} }, func(x interface{}) error {
		r.mischief = append(r.mischief, x.(*mischief))
		return x.(*mischief).check()
	})
	post("/calm", func() interface{} { return &struct{}{} }, func(interface{}) error {
		r.mischief = nil
		return nil
	})
	post("/guests", func() interface{} { g := r.guests; return &g }, func(x interface{}) error {
		count := r.guests.count
		r.guests = *x.(*guests)
		r.guests.count = count
		r.speakUp()
		return nil
	})
	post("/unreadable", func() interface{} { return &unreadableRequest{} }, func(x interface{}) error { return changeReadable(x.(*unreadableRequest)) })
	post("/detach", func() interface{} { return &detachRequest{} }, func(x interface{}) error { return r.detachFrom(x.(*detachRequest)) })
	post("/host", func() interface{} { return &hostRequest{} }, func(x interface{}) error { return r.changeHost(x.(*hostRequest)) })
	post("/cluster", func() interface{} { return &drsRequest{} }, func(x interface{}) error { return changeCluster(x.(*drsRequest)) })
	post("/forget", func() interface{} { return &struct{}{} }, func(interface{}) error { r.forget(); return nil })
	post("/expire", func() interface{} { return &struct{}{} }, func(interface{}) error { r.expireSessions(); return nil })
	post("/cut", func() interface{} { return &struct{}{} }, func(interface{}) error { conns.cut(); return nil })
	return mux
}

type detachRequest struct {
	VM  string `json:"vm"`
	Key int32  `json:"key"` // 0: its first passthrough device
}

func (r *rig) detachFrom(w *detachRequest) error {
	vm, _ := named("VirtualMachine", w.VM).(*simulator.VirtualMachine)
	if vm == nil || !r.detach(vm, w.Key) {
		return fmt.Errorf("no VM %q with such a passthrough device", w.VM)
	}
	return nil
}

type hostRequest struct {
	Name        string `json:"name"`
	Connected   *bool  `json:"connected"`
	Maintenance *bool  `json:"maintenance"`
	Default     string `json:"defaultGraphicsType"`
	// Of the device with this id, what passthrough and labels are to be.
	Device string  `json:"device"`
	Label  *string `json:"label"`
	Mode   string  `json:"mode"`
}

func (r *rig) changeHost(w *hostRequest) error {
	h, _ := named("HostSystem", w.Name).(*simulator.HostSystem)
	if h == nil {
		return fmt.Errorf("no host %q", w.Name)
	}
	if w.Connected != nil {
		state := types.HostSystemConnectionStateDisconnected
		if *w.Connected {
			state = types.HostSystemConnectionStateConnected
		}
		update(h, change("runtime.connectionState", state))
	}
	if w.Maintenance != nil {
		update(h, change("runtime.inMaintenanceMode", *w.Maintenance))
	}
	if w.Default != "" {
		r.defaults[h.Self] = w.Default
	}
	if w.Device != "" {
		found := false
		for _, g := range r.hosts[h.Self] {
			if g.ID == w.Device {
				found = true
				if w.Label != nil {
					g.Label = *w.Label
				}
				if w.Mode != "" {
					g.Mode = w.Mode
				}
			}
		}
		if !found {
			return fmt.Errorf("host %q has no device %q", w.Name, w.Device)
		}
	}
	r.publish(h.Self)
	return nil
}

type drsRequest struct {
	Name string `json:"name"`
	DRS  bool   `json:"drs"`
}

func changeCluster(w *drsRequest) error {
	c, _ := named("ClusterComputeResource", w.Name).(*simulator.ClusterComputeResource)
	if c == nil {
		return fmt.Errorf("no cluster %q", w.Name)
	}
	config := *c.ConfigurationEx.(*types.ClusterConfigInfoEx)
	config.DrsConfig.Enabled = &w.DRS
	update(c, change("configurationEx", &config))
	return nil
}
