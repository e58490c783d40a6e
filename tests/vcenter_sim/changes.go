package main

// Which properties a filter is told of when one has changed: that one, those that it is part of, and
// those that are part of it.

import (
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

func assigned(props []types.DynamicProperty, wanted []string) (changes []types.PropertyChange) {
	set := map[string]bool{}
	for _, p := range props {
		set[p.Name] = true
		changes = append(changes, types.PropertyChange{Name: p.Name, Op: types.PropertyChangeOpAssign, Val: p.Val})
	}
	for _, name := range wanted { // what has no value now
		if !set[name] {
			changes = append(changes, types.PropertyChange{Name: name, Op: types.PropertyChangeOpAssign})
		}
	}
	return changes
}

// touched are the paths of a filter that a change of these properties concerns.
func touched(paths []string, names map[string]bool) (found []string) {
	for _, path := range paths {
		for name := range names {
			if path == name || strings.HasPrefix(path, name+".") || strings.HasPrefix(name, path+".") {
				found = append(found, path)
				break
			}
		}
	}
	return found
}

// changed are the values that a filter asks for of an object of which some properties have changed.
func (pc *PropertyCollector) changed(ctx *simulator.Context, specs []types.PropertySpec, obj reference, names map[string]bool) (changes []types.PropertyChange) {
	for _, spec := range specs {
		paths := touched(spec.PathSet, names)
		if spec.All != nil && *spec.All {
			for name := range names {
				paths = append(paths, name)
			}
		}
		if len(paths) == 0 {
			continue
		}
		res, ok := pc.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{SpecSet: []types.PropertyFilterSpec{{
			PropSet:   []types.PropertySpec{{Type: spec.Type, PathSet: paths}},
			ObjectSet: []types.ObjectSpec{{Obj: obj}},
		}}}).(*methods.RetrievePropertiesExBody)
		if !ok || res.Res == nil {
			continue // gone meanwhile
		}
		for _, o := range res.Res.Returnval.Objects {
			changes = append(changes, assigned(o.PropSet, paths)...)
		}
	}
	return changes
}

// objects are those that a filter is about now; none if what it begins with is gone.
func (pc *PropertyCollector) objects(ctx *simulator.Context, spec types.PropertyFilterSpec) []types.ObjectContent {
	res, ok := pc.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{
		SpecSet: []types.PropertyFilterSpec{spec}}).(*methods.RetrievePropertiesExBody)
	if !ok || res.Res == nil {
		return nil
	}
	return res.Res.Returnval.Objects
}
