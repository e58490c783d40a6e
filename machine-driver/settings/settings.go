// Package settings holds what a machine is to be like: the driver's configuration, its options, and
// the JSON forms within them. It is read and checked here, before anything is asked of Harvester.
package settings

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Settings is the configuration of one machine. Names and form are those of Harvester's driver, as
// rancher-machine stores them; HostDeviceInfo and MachineID are Laneway's.
type Settings struct {
	IPAddress      string
	IPv6Address    string
	MachineName    string
	SSHUser        string
	SSHPort        int
	SSHKeyPath     string
	StorePath      string
	SwarmMaster    bool
	SwarmHost      string
	SwarmDiscovery string

	KubeConfigContent string

	VMNamespace string
	VMAffinity  string
	ClusterType string
	ClusterID   string
	ClusterName string

	ServerVersion string

	CPU                int
	CPUModel           string
	MemorySize         string
	ReservedMemorySize string
	DiskSize           string
	DiskBus            string

	ImageName string

	DiskInfo *DiskInfo

	KeyPairName       string
	SSHPrivateKeyPath string
	SSHPublicKey      string
	SSHPassword       string

	AddUserToDockerGroup bool

	NetworkType string

	NetworkName  string
	NetworkModel string

	NetworkInfo *NetworkInfo

	CloudConfig string
	UserData    string
	NetworkData string

	EnableEFI        bool
	EnableSecureBoot bool
	VGPUInfo         *VGPUInfo
	HostDeviceInfo   *HostDeviceInfo

	CPUPinning            bool
	IsolateEmulatorThread bool

	EnableTPM bool

	// MachineID is written to the VM when it is made. A VM of this name without it is another's.
	MachineID string
}

// KeyPath is the file of the private SSH key.
func (s *Settings) KeyPath() string {
	if s.SSHKeyPath == "" {
		s.SSHKeyPath = filepath.Join(s.StorePath, "machines", s.MachineName, "id_rsa")
	}
	return s.SSHKeyPath
}

// Disks are the disks of the machine, and the number that the first one's name has.
func (s *Settings) Disks() ([]Disk, int) {
	if s.DiskInfo != nil {
		return s.DiskInfo.Disks, 0
	}
	size := 0
	fmt.Sscanf(s.DiskSize, "%d", &size)
	return []Disk{{ImageName: s.ImageName, Bus: s.DiskBus, Size: size, BootOrder: 1}}, 1
}

// Networks are the network interfaces of the machine.
func (s *Settings) Networks() []NetworkInterface {
	if s.NetworkInfo != nil {
		return s.NetworkInfo.NetworkInterfaces
	}
	return []NetworkInterface{{NetworkName: s.NetworkName, Model: s.NetworkModel}}
}

// Named splits "namespace/name"; a bare name is in the namespace of the VM.
func (s *Settings) Named(text string) (namespace, name string) {
	if namespace, name, found := strings.Cut(text, "/"); found {
		return namespace, name
	}
	return s.VMNamespace, text
}
