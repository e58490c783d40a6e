package settings

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"docker-machine-driver-laneway/plugin"
)

const (
	kubeconfigOption = "kubeconfig-content"
	// longestText is in bytes, of any option as it comes.
	longestText = 65536
)

// values reads options by the part of their name after the driver's.
type values struct{ plugin.Options }

func (v values) text(name string) string {
	value, _ := v.Get(full(name)).(string)
	return value
}

// decoded is a text that may have come in base64.
func (v values) decoded(name string) string { return decoded(v.text(name)) }

func (v values) number(name string) int {
	value, _ := v.Get(full(name)).(int)
	return value
}

func (v values) on(name string) bool {
	value, _ := v.Get(full(name)).(bool)
	return value
}

func decoded(text string) string {
	if plain, err := base64.StdEncoding.DecodeString(text); err == nil && utf8.Valid(plain) {
		return string(plain)
	}
	return text
}

// Configure takes the values of the options. Settings that have an error stay as they were.
func (s *Settings) Configure(options plugin.Options) error {
	v := values{options}
	for _, flag := range Flags() {
		option := strings.TrimPrefix(flag.String(), full(""))
		if err := checkLength(option, v.text(option)); err != nil {
			return err
		}
	}
	c := *s
	c.KubeConfigContent = v.decoded(kubeconfigOption)
	c.VMNamespace = v.text("vm-namespace")
	c.VMAffinity = v.decoded("vm-affinity")
	c.ClusterType, c.ClusterID = v.text("cluster-type"), v.text("cluster-id")
	c.ClusterName = v.text("cluster-name")
	c.CPU, c.CPUModel = v.number("cpu-count"), v.text("cpu-model")
	c.MemorySize = fmt.Sprintf("%dGi", v.number("memory-size"))
	c.ReservedMemorySize = ""
	if reserved := v.number("reserved-memory-size"); reserved > 0 {
		c.ReservedMemorySize = fmt.Sprintf("%dMi", reserved)
	}
	c.DiskSize, c.DiskBus = strconv.Itoa(v.number("disk-size")), v.text("disk-bus")
	c.ImageName = v.text("image-name")
	c.SSHUser, c.SSHPort = v.text("ssh-user"), v.number("ssh-port")
	c.SSHPassword = v.text("ssh-password")
	c.KeyPairName, c.SSHPrivateKeyPath = v.text("key-pair-name"), v.text("ssh-private-key-path")
	c.NetworkType = v.text("network-type")
	c.NetworkName, c.NetworkModel = v.text("network-name"), v.text("network-model")
	c.CloudConfig = v.text("cloud-config")
	c.UserData, c.NetworkData = v.decoded("user-data"), v.decoded("network-data")
	c.EnableEFI, c.EnableSecureBoot = v.on("enable-efi"), v.on("enable-secure-boot")
	c.EnableTPM = v.on("enable-tpm")
	c.CPUPinning = v.on("cpu-pinning")
	c.IsolateEmulatorThread = v.on("isolate-emulator-thread")
	if err := c.readForms(v); err != nil {
		return err
	}
	if err := c.check(v.number("memory-size")); err != nil {
		return err
	}
	*s = c
	return nil
}

func (s *Settings) readForms(v values) (err error) {
	if s.DiskInfo, err = readDisks(v.text("disk-info")); err != nil {
		return err
	}
	if s.NetworkInfo, err = readNetworks(v.text("network-info")); err != nil {
		return err
	}
	vgpus, err := readDevices(vgpuForm, v.text("vgpu-info"))
	if err != nil {
		return err
	}
	devices, err := readDevices(hostDeviceForm, v.text("host-device-info"))
	if err != nil {
		return err
	}
	s.VGPUInfo, s.HostDeviceInfo = nil, nil
	if vgpus != nil {
		s.VGPUInfo = &VGPUInfo{vgpus}
	}
	if devices != nil {
		s.HostDeviceInfo = &HostDeviceInfo{devices}
	}
	return checkOnce(vgpus, devices)
}

// Unmarshal takes the configuration as rancher-machine stored it. A kubeconfig in the arguments or
// in the environment is newer than the stored one: Rancher passes the cloud credential of today,
// and says --update-config.
func (s *Settings) Unmarshal(data []byte, arguments []string) error {
	stored := *s
	if err := json.Unmarshal(data, &stored); err != nil {
		return fmt.Errorf("the stored configuration of the machine cannot be read: %w", err)
	}
	if kubeconfig := given(kubeconfigOption, arguments); kubeconfig != "" {
		if err := checkLength(kubeconfigOption, kubeconfig); err != nil {
			return err
		}
		stored.KubeConfigContent = decoded(kubeconfig)
	}
	*s = stored
	return nil
}

// checkLength refuses a text that is longer than any real one. Its error has Rancher's name of the field.
func checkLength(option, text string) error {
	if len(text) <= longestText {
		return nil
	}
	words := strings.Split(option, "-")
	for number, word := range words[1:] {
		words[number+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return fmt.Errorf("%s has %d bytes; the most is %d", strings.Join(words, ""), len(text), longestText)
}

// given is the value of an option in the arguments of rancher-machine or in the environment.
func given(name string, arguments []string) string {
	for place, argument := range arguments {
		option, value, cut := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if !strings.HasPrefix(argument, "-") || option != full(name) {
			continue
		}
		if cut {
			return value
		}
		if place+1 < len(arguments) && !strings.HasPrefix(arguments[place+1], "-") {
			return arguments[place+1]
		}
	}
	return os.Getenv(variable(name))
}
