package main

// The handler in front of the library's. Whatever goes wrong on purpose goes wrong here; orders get
// tasks of ours; the rest is the library's, and what it leaves out of an answer is put in.

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io/ioutil"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// sessions knows the logins, so that they can be ended.
type sessions struct {
	live  map[string]bool
	ended chan struct{} // closed when all are ended
}

func newSessions() sessions { return sessions{map[string]bool{}, make(chan struct{})} }

func (r *rig) expireSessions() {
	r.sessions.live = map[string]bool{}
	close(r.sessions.ended)
	r.sessions.ended = make(chan struct{})
}

// admit takes from a request the cookie of a session that has ended.
func (r *rig) admit(req *http.Request) {
	if cookie, err := req.Cookie(soap.SessionCookieName); err == nil && !r.sessions.live[cookie.Value] {
		req.Header.Del("Cookie")
	}
}

// opened notes the session that an answer opens.
func (r *rig) opened(answer http.Header) {
	for _, cookie := range (&http.Response{Header: answer}).Cookies() {
		if cookie.Name == soap.SessionCookieName {
			r.mu.Lock()
			r.sessions.live[cookie.Value] = true
			r.mu.Unlock()
		}
	}
}

func (r *rig) sdk(w http.ResponseWriter, req *http.Request) {
	body, err := ioutil.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.Body = ioutil.NopCloser(bytes.NewReader(body))
	m, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		m = &simulator.Method{} // of a type that only the library knows, or none
	}
	r.mu.Lock()
	r.requests[m.Name]++
	r.admit(req)
	wrong := r.strike(false, m.Name, r.entityName(m), "")
	ended := r.sessions.ended
	r.mu.Unlock()
	if wrong != nil {
		switch wrong.As {
		case "fault":
			answerFault(w, wrong.fault, wrong.Text)
			return
		case "nonsense":
			w.WriteHeader(wrong.Status)
			_, _ = w.Write([]byte(wrong.Text))
			return
		case "drop":
			cut(w)
			return
		}
	}
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		r.serve(rec, req, m, body)
		r.opened(rec.Header())
		close(done)
	}()
	var waiting <-chan struct{}
	if strings.HasPrefix(m.Name, "WaitForUpdates") {
		waiting = ended
	}
	select {
	case <-done:
	case <-waiting:
		r.giveUp(req, m)
		notAuthenticated(w, m)
		return
	case <-req.Context().Done(): // no client waits for the answer
		r.giveUp(req, m)
		return
	}
	if wrong != nil { // dropAfter
		cut(w)
		return
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(withLater(rec.Body.Bytes()))
}

// giveUp ends a wait for updates whose answer no client gets, so that the next one need not wait for it.
func (r *rig) giveUp(req *http.Request, m *simulator.Method) {
	if !strings.HasPrefix(m.Name, "WaitForUpdates") {
		return
	}
	cancel := req.Clone(context.Background())
	cancel.Body = ioutil.NopCloser(strings.NewReader(fmt.Sprintf(envelope, fmt.Sprintf(
		`<CancelWaitForUpdates xmlns="urn:vim25"><_this type="PropertyCollector">%s</_this></CancelWaitForUpdates>`,
		html.EscapeString(m.This.Value)))))
	r.svc.ServeMux.ServeHTTP(httptest.NewRecorder(), cancel)
}

var late = regexp.MustCompile("\u27e6(\\w+)=([^\u27e7]*)\u27e7</(\\w+)>")

// withLater makes elements of the marks that `later` has left.
func withLater(body []byte) []byte {
	if !bytes.Contains(body, []byte("\u27e6")) {
		return body
	}
	return late.ReplaceAll(body, []byte("</$3><$1>$2</$1>"))
}

func notAuthenticated(w http.ResponseWriter, m *simulator.Method) {
	answerFault(w, &types.NotAuthenticated{NoPermission: types.NoPermission{
		Object: m.This, PrivilegeId: "System.View"}}, "The session is not authenticated.")
}

// serve answers a request that nothing goes wrong with.
func (r *rig) serve(w http.ResponseWriter, req *http.Request, m *simulator.Method, body []byte) {
	vm := vmOf(m.This)
	if bodies[m.Name] != nil && simulator.Map.Get(m.This) != nil {
		if _, err := req.Cookie(soap.SessionCookieName); err != nil {
			notAuthenticated(w, m)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		task := r.place(m, readExtra(body))
		answerTask(w, m.Name, &task)
		return
	}
	switch q := m.Body.(type) {
	case *types.CancelTask:
		r.mu.Lock()
		cancelled := r.cancel(q.This)
		r.mu.Unlock()
		if cancelled {
			answerTask(w, m.Name, nil)
		} else {
			answerFault(w, &types.InvalidState{}, "The operation is not allowed in the current state.")
		}
		return
	case *types.FindByUuid:
		r.mu.Lock()
		nothing := findsUnreadable(q)
		r.mu.Unlock()
		if nothing {
			answerTask(w, m.Name, nil)
			return
		}
	case *types.ShutdownGuest:
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.guests.Shutdown {
			answerTask(w, m.Name, nil)
			return
		}
		r.svc.ServeMux.ServeHTTP(w, req)
		if vm != nil && vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
			r.nowOff(vm)
		}
		return
	case *types.UnregisterVM, *types.MarkAsTemplate, *types.MarkAsVirtualMachine:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.svc.ServeMux.ServeHTTP(w, req)
		if vmOf(m.This) != nil {
			update(vm, change("config.template", vm.Config.Template))
		} else if vm != nil {
			r.nowOff(vm)
		}
		return
	}
	r.svc.ServeMux.ServeHTTP(w, req)
}
