package manifest

import (
	"encoding/json"
	"fmt"

	"docker-machine-driver-laneway/settings"
)

const preferred = "preferredDuringSchedulingIgnoredDuringExecution"

// affinity is the one of the settings, with a weak preference of different nodes for the machines of
// a set. Without one, machines prefer nodes without other machines, as Harvester's builder has it.
func affinity(s *settings.Settings) (object, error) {
	if s.VMAffinity == "" {
		others := object{"matchExpressions": []object{{"key": labelCreator, "operator": "Exists"}}}
		return object{"podAntiAffinity": object{preferred: []interface{}{apart(others, 100)}}}, nil
	}
	found := object{}
	if err := json.Unmarshal([]byte(s.VMAffinity), &found); err != nil {
		return nil, fmt.Errorf("vmAffinity is not JSON: %w", err)
	}
	anti, _ := found["podAntiAffinity"].(object)
	if anti == nil {
		anti = object{}
	}
	terms, _ := anti[preferred].([]interface{})
	set := object{"matchLabels": object{labelSet: labels(s)[labelSet]}}
	anti[preferred] = append(terms, apart(set, 1))
	found["podAntiAffinity"] = anti
	return found, nil
}

func apart(selector object, weight int) object {
	return object{
		"weight": weight,
		"podAffinityTerm": object{
			"labelSelector": selector,
			"topologyKey":   "kubernetes.io/hostname",
		},
	}
}
