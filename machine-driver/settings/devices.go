package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// VGPUInfo is the JSON of the option vgpu-info, with an entry for each vGPU.
type VGPUInfo struct {
	VGPURequests []Device `json:"vGPURequests"`
}

// HostDeviceInfo is the JSON of the option host-device-info (harvester/harvester#10764).
type HostDeviceInfo struct {
	HostDevices []Device `json:"hostDevices"`
}

// Device is a device of the VM: any one of a resource, such as nvidia.com/NVIDIA_A2-4Q.
type Device struct {
	Name       string `json:"name"`
	DeviceName string `json:"deviceName"`
}

// form is one of the two strings.
type form struct{ field, list, prefix string }

var (
	vgpuForm       = form{"vgpuInfo", "vGPURequests", "vgpu"}
	hostDeviceForm = form{"hostDeviceInfo", "hostDevices", "device"}
)

// mostDevices of one kind that a machine can be given; QEMU has fewer slots for them.
const mostDevices = 64

var (
	vendors   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	qualified = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// readDevices reads one of the strings, in all forms that clients write: entries named like a device,
// "provisioned" or not at all, and entries with a count. Every device gets a name of its own. Nil:
// the string says nothing.
func readDevices(form form, text string) ([]Device, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	found, err := object(text)
	if err != nil {
		return nil, notJSON(form.field, err)
	}
	if found == nil {
		return nil, fmt.Errorf("%s is not a JSON object with a list %s", form.field, form.list)
	}
	entries, ok := found[form.list].([]interface{})
	if !ok && found[form.list] != nil {
		return nil, fmt.Errorf("%s: %s is not a list", form.field, form.list)
	}
	var devices []Device
	for number, entry := range entries {
		resource, count, err := form.entry(number+1, entry)
		if err != nil {
			return nil, err
		}
		for ; count > 0; count-- {
			name := fmt.Sprintf("%s-%d", form.prefix, len(devices))
			devices = append(devices, Device{Name: name, DeviceName: resource})
		}
	}
	if len(devices) > mostDevices {
		return nil, fmt.Errorf("%s requests %d devices for each machine; the most is %d",
			form.field, len(devices), mostDevices)
	}
	return devices, nil
}

// object decodes a text that is nothing but one JSON value; nil where that is no object.
func object(text string) (map[string]interface{}, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var value interface{}
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after its end")
	}
	found, _ := value.(map[string]interface{})
	return found, nil
}

func (f form) entry(number int, raw interface{}) (resource string, count int, err error) {
	where := fmt.Sprintf("%s: entry %d", f.field, number)
	entry, ok := raw.(map[string]interface{})
	if !ok {
		return "", 0, fmt.Errorf("%s is not a JSON object with name and deviceName", where)
	}
	resource, _ = entry["deviceName"].(string)
	if resource == "" {
		return "", 0, fmt.Errorf("%s has no deviceName", where)
	}
	if !isResource(resource) {
		return "", 0, fmt.Errorf("%s: deviceName %.100q is not the name of a resource, such as "+
			"nvidia.com/NVIDIA_A2-4Q", where, resource)
	}
	if _, ok := entry["name"].(string); !ok && entry["name"] != nil {
		return "", 0, fmt.Errorf("%s: name is not a string", where)
	}
	given, ok := entry["count"]
	if !ok {
		return resource, 1, nil
	}
	amount, ok := given.(json.Number)
	value, failed := amount.Int64()
	if !ok || failed != nil || value < 1 || value > mostDevices {
		return "", 0, fmt.Errorf("%s: count is not a number of 1 to %d", where, mostDevices)
	}
	return resource, int(value), nil
}

func isResource(text string) bool {
	vendor, name, _ := strings.Cut(text, "/")
	return vendors.MatchString(vendor) && len(vendor) <= 253 && qualified.MatchString(name) && len(name) <= 63
}

// checkOnce: virt-launcher gives the devices of a resource out twice if it stands in both lists.
func checkOnce(vgpus, devices []Device) error {
	for _, vgpu := range vgpus {
		for _, device := range devices {
			if vgpu.DeviceName == device.DeviceName {
				return fmt.Errorf("%s is in vgpuInfo and in hostDeviceInfo. A VM requests a resource "+
					"in one of them", device.DeviceName)
			}
		}
	}
	return nil
}
