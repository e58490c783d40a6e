package settings

import (
	"errors"
	"fmt"
)

const (
	required = "requiredDuringSchedulingIgnoredDuringExecution"
	// Preferred is the list of weak rules of each kind of affinity.
	Preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// ReadAffinity reads the affinity of a VM as far down as its kinds and their lists. What is in these,
// the API server judges. The kinds that are in it are objects, the lists are lists of objects.
func ReadAffinity(text string) (map[string]interface{}, error) {
	found, err := object(text)
	if err != nil {
		return nil, notJSON("vmAffinity", err)
	}
	if found == nil {
		return nil, errors.New("vmAffinity is not a JSON object with nodeAffinity, podAffinity or podAntiAffinity")
	}
	for _, kind := range []string{"nodeAffinity", "podAffinity", "podAntiAffinity"} {
		if found[kind] == nil {
			delete(found, kind)
			continue
		}
		rules, ok := found[kind].(map[string]interface{})
		if !ok {
			return nil, fmt.Errorf("vmAffinity: %s is not a JSON object", kind)
		}
		lists := []string{required, Preferred}
		if kind == "nodeAffinity" {
			lists = []string{Preferred}
			if _, ok := rules[required].(map[string]interface{}); !ok && rules[required] != nil {
				return nil, fmt.Errorf("vmAffinity: %s.%s is not a JSON object", kind, required)
			}
		}
		for _, list := range lists {
			if err := checkList("vmAffinity: "+kind+"."+list, rules[list]); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// checkList refuses what is there and is not a list of objects.
func checkList(where string, value interface{}) error {
	entries, ok := value.([]interface{})
	if !ok && value != nil {
		return fmt.Errorf("%s is not a list", where)
	}
	for number, entry := range entries {
		if _, ok := entry.(map[string]interface{}); !ok {
			return fmt.Errorf("%s: entry %d is not a JSON object", where, number+1)
		}
	}
	return nil
}
