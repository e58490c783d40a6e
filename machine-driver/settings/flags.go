package settings

import (
	"strings"

	"docker-machine-driver-laneway/plugin"
)

// DriverName is the first part of the name of each option.
const DriverName = "laneway"

const (
	defaultNamespace = "default"
	defaultUser      = "root"
)

// Flags are the options. Rancher makes a field of LanewayConfig of each, in camel case and without
// the driver's name. rancher-machine passes its cloud-config in the first option whose name has
// "cloud-config" or "user-data" in it, so the order of these two matters.
func Flags() []plugin.Flag {
	return []plugin.Flag{
		text("kubeconfig-content", "kubeconfig of the Harvester cluster; can be base64", ""),
		text("cluster-type", "type of the Harvester cluster in Rancher: imported or external", ""),
		text("cluster-id", "id of the Harvester cluster in Rancher", ""),
		text("cluster-name", "name of the guest cluster; needed to remove all of its disks", ""),
		text("vm-namespace", "namespace of the VM", defaultNamespace),
		number("cpu-count", "number of CPUs", 2),
		number("memory-size", "memory in GiB", 4),
		number("disk-size", "size of the disk in GiB, without diskInfo", 0),
		text("disk-bus", "bus of the disk, without diskInfo", ""),
		text("image-name", "image of the disk, without diskInfo: NAMESPACE/NAME", ""),
		text("disk-info", "disks as JSON", ""),
		text("ssh-user", "user for SSH", defaultUser),
		number("ssh-port", "port for SSH", 22),
		text("ssh-password", "password of the user for SSH", ""),
		text("key-pair-name", "key pair in Harvester: NAMESPACE/NAME", ""),
		text("ssh-private-key-path", "file of the private key of the key pair", ""),
		text("network-type", "not used; the field is Harvester's", ""),
		text("network-name", "network of the VM, without networkInfo: NAMESPACE/NAME", ""),
		text("network-model", "model of the network card, without networkInfo", ""),
		text("network-info", "network interfaces as JSON", ""),
		text("cloud-config", "leave it empty; rancher-machine sets it", ""),
		text("user-data", "user data of cloud-init; can be base64", ""),
		text("network-data", "network data of cloud-init; can be base64", ""),
		text("vm-affinity", "affinity of the VM as JSON; can be base64", ""),
		toggle("enable-efi", "boot by EFI"),
		toggle("enable-secure-boot", "secure boot; needs enable-efi"),
		text("vgpu-info", "vGPUs as JSON", ""),
		text("host-device-info", "PCI devices as JSON", ""),
		toggle("cpu-pinning", "CPUs of its own; a node needs the CPU manager"),
		toggle("isolate-emulator-thread", "a further CPU for the emulator"),
		toggle("enable-tpm", "a TPM"),
		number("reserved-memory-size", "memory in MiB that the guest does not get; -1: default", -1),
		text("cpu-model", "CPU model", ""),
	}
}

func full(name string) string { return DriverName + "-" + name }

func variable(name string) string {
	return strings.ToUpper(strings.ReplaceAll(full(name), "-", "_"))
}

func text(name, usage, value string) plugin.Flag {
	return &plugin.StringFlag{Name: full(name), Usage: usage, EnvVar: variable(name), Value: value}
}

func number(name, usage string, value int) plugin.Flag {
	return &plugin.IntFlag{Name: full(name), Usage: usage, EnvVar: variable(name), Value: value}
}

func toggle(name, usage string) plugin.Flag {
	return &plugin.BoolFlag{Name: full(name), Usage: usage, EnvVar: variable(name)}
}
