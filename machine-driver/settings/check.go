package settings

import (
	"errors"
	"fmt"
	"regexp"
)

// labels: names that reach a path of the API.
var labels = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// check finds what is wrong or missing without asking Harvester.
func (s *Settings) check(memory int) error {
	if !names.MatchString(s.MachineName) || len(s.MachineName) > 63 {
		return fmt.Errorf("the machine's name %.100q cannot be the name of a VM: it has to be of lower-case "+
			"letters, digits, '-' and '.', 63 at most", s.MachineName)
	}
	if !labels.MatchString(s.VMNamespace) || len(s.VMNamespace) > 63 {
		return fmt.Errorf("vmNamespace %.100q is not the name of a namespace", s.VMNamespace)
	}
	if s.ClusterName != "" && (!names.MatchString(s.ClusterName) || len(s.ClusterName) > 63) {
		return fmt.Errorf("clusterName %.100q is not the name of a guest cluster", s.ClusterName)
	}
	if s.CPU < 1 || memory < 1 {
		return fmt.Errorf("cpuCount is %d and memorySize %d GiB: both have to be 1 at least", s.CPU, memory)
	}
	if s.EnableSecureBoot && !s.EnableEFI {
		return errors.New("enableSecureBoot needs enableEfi")
	}
	if s.KeyPairName != "" && s.SSHPrivateKeyPath == "" {
		return errors.New("keyPairName needs sshPrivateKeyPath, the file of the key pair's private key")
	}
	if s.DiskInfo == nil && s.ImageName == "" {
		return errors.New("the machine has no disk: set diskInfo, or imageName and diskSize")
	}
	if s.DiskInfo == nil && s.DiskSize == "0" {
		return errors.New("diskSize is missing: set it in GiB, or set diskInfo")
	}
	if s.NetworkInfo == nil && s.NetworkName == "" {
		return errors.New("the machine has no network: set networkInfo, or networkName")
	}
	for _, reference := range s.references() {
		namespace, name := s.Named(reference.value)
		if !labels.MatchString(namespace) || !names.MatchString(name) {
			return fmt.Errorf("%s %.100q is not a name, nor NAMESPACE/NAME", reference.field, reference.value)
		}
	}
	if s.VMAffinity != "" {
		if _, err := ReadAffinity(s.VMAffinity); err != nil {
			return err
		}
	}
	if _, err := s.UserCloudConfig(); err != nil {
		return err
	}
	return checkNetworkData(s.NetworkData)
}

type reference struct{ field, value string }

// references are the names of objects on Harvester that the settings have.
func (s *Settings) references() []reference {
	var found []reference
	add := func(field, value string) {
		if value != "" {
			found = append(found, reference{field, value})
		}
	}
	add("keyPairName", s.KeyPairName)
	disks, _ := s.Disks()
	for _, disk := range disks {
		add("imageName", disk.ImageName)
		add("storageClassName", disk.StorageClassName)
	}
	for _, network := range s.Networks() {
		add("networkName", network.NetworkName)
	}
	return found
}
