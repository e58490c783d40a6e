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
// Rancher names a machine CLUSTER-POOL-HASH-RANDOM, so the set of machines, CLUSTER-POOL, is known
// without knowing where the pool begins.
func labels(s *settings.Settings) object {
	found := object{labelCreator: creator, labelVM: labelValue(s.MachineName)}
	words := strings.Split(s.MachineName, "-")
	set := []string{s.VMNamespace}
	if len(words) > 2 {
		set = append(set, words[:len(words)-2]...)
	}
	found[labelSet] = labelValue(strings.Join(set, "-"))
	if cluster, pool := membership(s.MachineName, s.ClusterName); pool != "" {
		found[labelCluster], found[labelPool] = labelValue(cluster), labelValue(pool)
	}
	return found
}

// membership gives the guest cluster and the pool of a machine; both are empty where its name does not
// tell them. Only the driver named harvester is told the name of the cluster by Rancher. Without it,
// a name is clear only if neither part can have a '-': others would say the wrong cluster.
func membership(machine, cluster string) (string, string) {
	words := strings.Split(machine, "-")
	if cluster == "" {
		if len(words) != 4 {
			return "", ""
		}
		return words[0], words[1]
	}
	own := strings.TrimPrefix(machine, cluster+"-")
	if own == machine {
		return "", ""
	}
	words = strings.Split(own, "-")
	kept := len(words) - 2
	if kept < 1 {
		kept = len(words) - 1
	}
	if kept < 1 {
		return "", ""
	}
	return cluster, strings.Join(words[:kept], "-")
}

// ClusterSelector selects what belongs to the guest cluster that the settings name; empty where they
// name none. It is for deletions, for which no name is guessed.
func ClusterSelector(s *settings.Settings) string {
	if s.ClusterName == "" {
		return ""
	}
	return labelCluster + "=" + labelValue(s.ClusterName)
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
