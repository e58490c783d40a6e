package manifest

import (
	"fmt"

	"docker-machine-driver-laneway/settings"
)

// Disk is a disk with what is known of it only on Harvester.
type Disk struct {
	settings.Disk
	// Name of the disk in the VM.
	Name string
	// Claim is the name of its PersistentVolumeClaim.
	Claim string
	// Image is "namespace/name", or empty.
	Image string
	// Class is the storage class, for an image that of the image.
	Class string
}

func numbered(prefix string, number int) string { return fmt.Sprintf("%s-%d", prefix, number) }

// DiskName is the name of a disk in the VM.
func DiskName(number int) string { return numbered("disk", number) }

// templates are the claims that Harvester makes for the VM.
func templates(disks []Disk) []object {
	found := make([]object, 0, len(disks))
	for _, disk := range disks {
		annotations := object{}
		if disk.Image != "" {
			annotations["harvesterhci.io/imageId"] = disk.Image
		}
		found = append(found, object{
			"metadata": object{"name": disk.Claim, "annotations": annotations},
			"spec": object{
				"accessModes":      []string{"ReadWriteMany"},
				"resources":        object{"requests": object{"storage": fmt.Sprintf("%dGi", disk.Size)}},
				"storageClassName": disk.Class,
				"volumeMode":       "Block",
			},
		})
	}
	return found
}

func volumes(disks []Disk) (volumes, shown []object) {
	shown = append(shown, object{"name": cloudInitDisk, "disk": object{"bus": "virtio"}})
	for _, disk := range disks {
		bus, kind := or(disk.Bus, "virtio"), "disk"
		if disk.Type == "cd-rom" {
			kind = "cdrom"
		}
		entry := object{"name": disk.Name, kind: object{"bus": bus}}
		if disk.BootOrder > 0 {
			entry["bootOrder"] = disk.BootOrder
		}
		shown = append(shown, entry)
		claim := object{"claimName": disk.Claim}
		if disk.HotPlugAble {
			claim["hotpluggable"] = true
		}
		volumes = append(volumes, object{"name": disk.Name, "persistentVolumeClaim": claim})
	}
	return volumes, shown
}

func networks(s *settings.Settings) (interfaces, networks []object) {
	for number, one := range s.Networks() {
		name := numbered("nic", number)
		binding := "bridge"
		if one.Type != "" && one.Type != "bridge" {
			binding = "masquerade"
		}
		card := object{"name": name, "model": or(one.Model, "virtio"), binding: object{}}
		if one.MACAddress != "" {
			card["macAddress"] = one.MACAddress
		}
		interfaces = append(interfaces, card)
		networks = append(networks, object{
			"name": name, "multus": object{"networkName": one.NetworkName},
		})
	}
	return interfaces, networks
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
