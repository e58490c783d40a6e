package main

// Changing properties of objects, and telling those who listen.

import (
	"reflect"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// hearers are the listeners of all sessions.
var hearers = struct {
	sync.Mutex
	all map[*listener]bool
}{all: map[*listener]bool{}}

func change(name string, value interface{}) types.PropertyChange {
	return types.PropertyChange{Name: name, Val: value}
}

// update makes changes to an object, and tells of them. The library's own way knows neither
// pointers to truth values nor types of ours.
func update(obj mo.Reference, changes ...types.PropertyChange) {
	simulator.Map.WithLock(obj, func() {
		for _, c := range changes {
			assign(reflect.ValueOf(obj), strings.Split(c.Name, "."), c.Val)
		}
	})
	tell(obj, changes...)
}

// tell tells those who listen of changes of an object.
func tell(obj mo.Reference, changes ...types.PropertyChange) {
	hearers.Lock()
	defer hearers.Unlock()
	for l := range hearers.all {
		l.UpdateObject(obj, changes)
	}
}

func assign(target reflect.Value, path []string, value interface{}) {
	for _, name := range path {
		for target.Kind() == reflect.Ptr || target.Kind() == reflect.Interface {
			if target.IsNil() {
				target.Set(reflect.New(target.Type().Elem()))
			}
			target = target.Elem()
		}
		target = target.FieldByName(strings.ToUpper(name[:1]) + name[1:])
	}
	is := reflect.ValueOf(value)
	switch {
	case !is.IsValid():
		target.Set(reflect.Zero(target.Type()))
	case is.Type().AssignableTo(target.Type()):
		target.Set(is)
	case target.Kind() == reflect.Ptr:
		pointer := reflect.New(target.Type().Elem())
		pointer.Elem().Set(is.Convert(target.Type().Elem()))
		target.Set(pointer)
	case is.Kind() == reflect.Ptr && is.IsNil():
		target.Set(reflect.Zero(target.Type()))
	default:
		target.Set(is.Convert(target.Type()))
	}
}
