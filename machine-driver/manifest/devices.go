package manifest

import "docker-machine-driver-laneway/settings"

// addDevices gives a VM its vGPUs and PCI devices.
//
// vGPUs go to `gpus`, where Laneway's webhook looks at how each is made and puts it where KubeVirt
// wants it. One display of a VM can have ramFB: with several vGPUs the first has the display, and the
// others say that they have none. A single vGPU says nothing, so that it stays free to go either way.
func addDevices(devices object, s *settings.Settings) {
	if s.VGPUInfo != nil {
		gpus := entries(s.VGPUInfo.VGPURequests, "vgpu")
		if len(gpus) > 1 {
			for place, gpu := range gpus {
				display := object{"enabled": false}
				if place == 0 {
					display = object{"enabled": true, "ramFB": object{"enabled": true}}
				}
				gpu["virtualGPUOptions"] = object{"display": display}
			}
		}
		if len(gpus) > 0 {
			devices["gpus"] = gpus
		}
	}
	if s.HostDeviceInfo != nil {
		if hosts := entries(s.HostDeviceInfo.HostDevices, "device"); len(hosts) > 0 {
			devices["hostDevices"] = hosts
		}
	}
}

// entries have names that are unique within the VM, whatever the settings call them.
func entries(requests []settings.Device, prefix string) []object {
	found := make([]object, 0, len(requests))
	for place, request := range requests {
		found = append(found, object{"name": numbered(prefix, place), "deviceName": request.DeviceName})
	}
	return found
}
