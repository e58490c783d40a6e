package manifest

import "docker-machine-driver-laneway/settings"

// affinity is the one of the settings, with a weak preference of different nodes for the machines of
// a set. Without one, machines prefer nodes without other machines, as Harvester's builder has it.
func affinity(s *settings.Settings) (object, error) {
	if s.VMAffinity == "" {
		others := object{"matchExpressions": []object{{"key": labelCreator, "operator": "Exists"}}}
		return object{"podAntiAffinity": object{settings.Preferred: []interface{}{apart(others, 100)}}}, nil
	}
	found, err := settings.ReadAffinity(s.VMAffinity)
	if err != nil {
		return nil, err
	}
	anti, _ := found["podAntiAffinity"].(object)
	if anti == nil {
		anti = object{}
	}
	terms, _ := anti[settings.Preferred].([]interface{})
	set := object{"matchLabels": object{labelSet: labels(s)[labelSet]}}
	anti[settings.Preferred] = append(terms, apart(set, 1))
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
