package main

// Hearing of changes.

import (
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// listener hears of all changes, whichever session they come from.
type listener struct {
	self reference
	wake chan struct{}
	stop chan struct{}

	mu    sync.Mutex
	dirty map[reference]map[string]bool // changed properties
	gone  map[reference]bool
	tree  bool // objects came or went
}

var listeners int64

func (l *listener) Reference() reference { return l.self }

func (l *listener) hear(note func()) {
	l.mu.Lock()
	note()
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// PutObject is called for each new object.
func (l *listener) PutObject(o mo.Reference) {
	if o.Reference().Type != "Task" {
		l.hear(func() { l.tree = true })
	}
}

// UpdateObject is called for each change.
func (l *listener) UpdateObject(o mo.Reference, changes []types.PropertyChange) {
	ref := o.Reference()
	l.hear(func() {
		if l.dirty[ref] == nil {
			l.dirty[ref] = map[string]bool{}
		}
		for _, c := range changes {
			l.dirty[ref][c.Name] = true
		}
		l.tree = l.tree || strings.HasSuffix(ref.Type, "View")
	})
}

// RemoveObject is called before an object goes.
func (l *listener) RemoveObject(ref reference) {
	l.hear(func() { l.gone[ref] = true; delete(l.dirty, ref) })
}

// heard is what changed since it was asked last.
func (l *listener) heard() (dirty map[reference]map[string]bool, tree bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dirty, tree = l.dirty, l.tree
	l.dirty, l.tree = map[reference]map[string]bool{}, false
	return dirty, tree
}

func (l *listener) isGone(ref reference) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[ref]
}
