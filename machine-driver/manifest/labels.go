package manifest

import (
	"encoding/base64"
	"hash/fnv"
	"regexp"
	"strings"

	"docker-machine-driver-laneway/settings"
)

var labelValues = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// labels say to what the machine belongs.
//
// Rancher names a machine CLUSTER-POOL-HASH-RANDOM. Only the driver named harvester is told the name
// of the cluster; without it, the last word before the hash is taken for the pool.
func labels(s *settings.Settings) object {
	found := object{labelCreator: creator, labelVM: labelValue(s.MachineName)}
	words := strings.Split(s.MachineName, "-")
	set := []string{s.VMNamespace}
	if len(words) > 2 {
		set = append(set, words[:len(words)-2]...)
	}
	found[labelSet] = labelValue(strings.Join(set, "-"))
	if cluster, pool := Pool(s.MachineName, s.ClusterName); cluster != "" && pool != "" {
		found[LabelCluster], found[labelPool] = labelValue(cluster), labelValue(pool)
	}
	return found
}

// Pool gives the guest cluster and the machine pool of a machine, as far as its name tells.
func Pool(machine, cluster string) (string, string) {
	own := machine
	if cluster != "" {
		if own = strings.TrimPrefix(machine, cluster+"-"); own == machine {
			return cluster, ""
		}
	}
	words := strings.Split(own, "-")
	kept := len(words) - 2
	if kept < 1 {
		kept = len(words) - 1
	}
	if kept < 1 {
		return cluster, ""
	}
	if cluster != "" {
		return cluster, strings.Join(words[:kept], "-")
	}
	if kept < 2 {
		return "", ""
	}
	return strings.Join(words[:kept-1], "-"), words[kept-1]
}

// labelValue is a text as the value of a label: a hash where it cannot be one, in the form that
// Cluster API has for it.
func labelValue(text string) string {
	if labelValues.MatchString(text) {
		return text
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text))
	return "hash_" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)) + "_z"
}
