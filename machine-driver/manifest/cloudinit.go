package manifest

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"docker-machine-driver-laneway/settings"
)

const (
	cloudInitDisk = "cloudinitdisk"
	jinja         = "## template: jinja\n"
)

// SecretName is the name of the secret with the data of cloud-init.
func SecretName(s *settings.Settings) string { return s.MachineName + "-cloudinit" }

// cloudInitVolume takes user data from a secret, whatever its size: it has passwords and tokens, and
// who may read VMs is not to read these.
func cloudInitVolume(s *settings.Settings) object {
	source := object{"secretRef": object{"name": SecretName(s)}}
	if s.NetworkData != "" {
		source["networkDataSecretRef"] = object{"name": SecretName(s)}
	}
	return object{"name": cloudInitDisk, "cloudInitNoCloud": source}
}

// Secret has the data of cloud-init; it goes with the VM that has this uid.
func Secret(s *settings.Settings, userData, uid string) object {
	data := map[string][]byte{"userdata": []byte(userData)}
	if s.NetworkData != "" {
		data["networkdata"] = []byte(s.NetworkData)
	}
	return object{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata": object{
			"name": SecretName(s), "namespace": s.VMNamespace,
			"ownerReferences": []object{{
				"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
				"name": s.MachineName, "uid": uid,
			}},
		},
		"data": data,
	}
}

// UserData merges the access for SSH, the user data of the settings, and the cloud-config with which
// rancher-machine installs Kubernetes. Lists are joined; of other values the first one counts.
func UserData(s *settings.Settings, ofMachine string) (string, error) {
	merged := access(s)
	own, err := s.UserCloudConfig()
	if err != nil {
		return "", err
	}
	merge(merged, own)
	installing, err := settings.ReadCloudConfig("cloudConfig", ofMachine)
	if err != nil {
		return "", err
	}
	merge(merged, installing)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(merged); err != nil {
		return "", fmt.Errorf("the user data cannot be written as YAML: %w", err)
	}
	header := "#cloud-config\n"
	if strings.HasPrefix(s.UserData, jinja) {
		header = jinja + header
	}
	return header + text.String(), nil
}

func access(s *settings.Settings) object {
	found := object{}
	if s.SSHPassword != "" {
		found["user"], found["password"] = s.SSHUser, s.SSHPassword
		found["chpasswd"], found["ssh_pwauth"] = object{"expire": false}, true
	}
	key := strings.TrimSpace(s.SSHPublicKey)
	if key == "" {
		return found
	}
	keys := []interface{}{key}
	if !s.AddUserToDockerGroup {
		found["ssh_authorized_keys"] = keys
		return found
	}
	found["groups"] = []interface{}{"docker"}
	found["users"] = []interface{}{object{
		"name": s.SSHUser, "sudo": "ALL=(ALL) NOPASSWD:ALL", "groups": "sudo, docker",
		"shell": "/bin/bash", "ssh_authorized_keys": keys,
	}}
	return found
}

func merge(into, from object) {
	for key, value := range from {
		there, found := into[key]
		if !found || there == nil {
			into[key] = value
			continue
		}
		switch known := there.(type) {
		case object:
			if more, ok := value.(object); ok {
				merge(known, more)
			}
		case []interface{}:
			if more, ok := value.([]interface{}); ok {
				into[key] = append(known, more...)
			}
		}
	}
}
