// Package manifest makes the VM of a machine: the object that Harvester's own driver would make, with
// the devices of the settings. It asks nobody; what it needs to know comes in.
package manifest

import (
	"encoding/json"
	"fmt"

	"docker-machine-driver-laneway/settings"
)

type object = map[string]interface{}

const (
	// creator is how Harvester's controllers, its load balancer among them, know the VMs of guest
	// clusters: by the name of its own driver.
	creator      = "docker-machine-driver-harvester"
	labelCreator = "harvesterhci.io/creator"
	labelVM      = "harvesterhci.io/vmName"
	labelSet     = "harvesterhci.io/machineSetName"
	// labelCluster is on everything that belongs to a guest cluster.
	labelCluster = "guestcluster.harvesterhci.io/name"
	labelPool    = "nodepool.harvesterhci.io/name"

	// AnnotationMachine tells the VMs of this driver from others of the same name.
	AnnotationMachine  = "devices.harvesterhci.io/laneway-machine"
	annotationReserved = "harvesterhci.io/reservedMemory"
	annotationVolumes  = "harvesterhci.io/volumeClaimTemplates"
	annotationKeys     = "harvesterhci.io/sshNames"
	annotationLeases   = "harvesterhci.io/waitForLeaseInterfaceNames"
)

// VM is the VirtualMachine, with these disks.
func VM(s *settings.Settings, disks []Disk) (object, error) {
	affinity, err := affinity(s)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	if s.KeyPairName != "" {
		keys = append(keys, s.KeyPairName)
	}
	labels := labels(s)
	annotations := object{AnnotationMachine: s.MachineID, annotationVolumes: encoded(templates(disks))}
	if s.ReservedMemorySize != "" {
		annotations[annotationReserved] = s.ReservedMemorySize
	}
	interfaces, networks := networks(s)
	volumes, shown := volumes(disks)
	devices := object{"disks": shown, "interfaces": interfaces}
	addDevices(devices, s)
	if s.EnableTPM {
		devices["tpm"] = object{}
	}
	domain := object{
		"cpu":     cpu(s),
		"devices": devices,
		"resources": object{
			"limits": object{"cpu": fmt.Sprint(s.CPU), "memory": s.MemorySize},
		},
	}
	if s.EnableEFI {
		secure := s.EnableSecureBoot
		domain["features"] = object{"smm": object{"enabled": secure}}
		domain["firmware"] = object{"bootloader": object{"efi": object{"secureBoot": secure}}}
	}
	volumes = append(volumes, cloudInitVolume(s))
	return object{
		"apiVersion": "kubevirt.io/v1",
		"kind":       "VirtualMachine",
		"metadata": object{
			"name": s.MachineName, "namespace": s.VMNamespace,
			"labels": labels, "annotations": annotations,
		},
		"spec": object{
			"runStrategy": "RerunOnFailure",
			"template": object{
				"metadata": object{
					"labels": labels,
					"annotations": object{
						annotationKeys: encoded(keys), annotationLeases: "[]",
					},
				},
				"spec": object{
					"affinity":         affinity,
					"domain":           domain,
					"evictionStrategy": "LiveMigrateIfPossible",
					"networks":         networks,
					"volumes":          volumes,
				},
			},
		},
	}, nil
}

func cpu(s *settings.Settings) object {
	found := object{"cores": s.CPU}
	if s.CPUPinning {
		found["dedicatedCpuPlacement"] = true
	}
	if s.IsolateEmulatorThread {
		found["isolateEmulatorThread"] = true
	}
	if s.CPUModel != "" {
		found["model"] = s.CPUModel
	}
	return found
}

// encoded is the JSON of what cannot fail to have one.
func encoded(value interface{}) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
