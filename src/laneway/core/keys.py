"""Labels, annotations and finalizers that Harvester's clients know, spelt as they spell them."""

LABEL_NODE = "nodename"
"""The node, on every observed device. Not on claims and MigConfigurations."""
LABEL_PARENT_NETWORK_DEVICE = "harvesterhci.io/parent-sriov-network-device"
"""On the PCIDevice of a virtual function: its SRIOVNetworkDevice."""
LABEL_PARENT_GPU = "harvesterhci.io/parentSRIOVGPUDevice"
"""On the PCIDevice of a virtual function, a VGPUDevice and the claim of a vGPU: the SRIOVGPUDevice.

Clients filter by it.
"""
LABEL_DRIVER_NEEDED = "sriovgpu.harvesterhci.io/driver-needed"
"""`true` on a cluster node with an SRIOVGPUDevice: Harvester's add-on installs the driver there."""
LABEL_NODE_UID = "devices.harvesterhci.io/laneway-node-uid"
"""On a Node of the device group: the uid of the cluster's node, once its agent has seen that. Not
of Harvester."""
LABEL_BAREMETAL_GPUS = "harvesterhci.io/gpu-baremetal-workloads"
"""`true` on a cluster node whose GPUs serve containers."""
LABEL_GPU_WORKLOAD = "laneway.io/gpu-workload"
"""`containers` or `virtual-machines` on a cluster node: whom its GPUs serve whose objects say
nothing. It counts before Harvester's label and NVIDIA's. Not of Harvester."""
LABEL_NVIDIA_WORKLOAD = "nvidia.com/gpu.workload.config"
"""`container`, `vm-passthrough` or `vm-vgpu` on a cluster node: the same, for NVIDIA's operator.
Where no other label says anything, Laneway reads it as well."""
LABEL_NVIDIA_CONTAINERS = "laneway.io/nvidia-gpu-containers"
"""`true` on a cluster node where NVIDIA's device plugin is to run: it has a GPU of NVIDIA that
serves containers. Not of Harvester."""
LABEL_AMD_CONTAINERS = "laneway.io/amd-gpu-containers"
"""The same for AMD's device plugin. Not of Harvester."""
LABEL_INTEL_CONTAINERS = "laneway.io/intel-gpu-containers"
"""The same for Intel's device plugin. Not of Harvester."""
LABEL_NVIDIA_DRIVER = "laneway.io/nvidia-driver"
"""On a cluster node with a GPU that can be shared: the version of NVIDIA's driver there. Not of
Harvester."""
LABEL_MIGRATION_GROUP = "migration-group.laneway.io/"
"""On a cluster node, continued by a migration group, with the value `true`: the node has a GPU of
that group. Running VMs with vGPUs can be moved between nodes with a group in common, as far as GPU
model, ECC mode and branch of the driver decide it. Not of Harvester."""

ANNOTATION_DRIVER = "harvesterhci.io/pcideviceDriver"
"""On a PCIDevice: its driver when it was first observed."""
ANNOTATION_RESOURCE_NAME = "pcidevice.harvesterhci.io/override-resource-name"
"""On a PCIDevice or its claim: the resource name, instead of the usual one."""
ANNOTATION_SKIP_BINDING = "pcidevices.harvesterhci.io/skip-vfio-binding"
"""On a PCIDeviceClaim, with any value: the driver stays as it is."""
ANNOTATION_INTERFACE = "sriov.devices.harvesterhi.io/interface-name"
"""On an SRIOVNetworkDevice: the interface. The domain really lacks the `c`."""
ANNOTATION_SKIP_MIG = "harvesterhci.io/skip-mig-configuration"
"""`true` on an SRIOVGPUDevice: share it by time, leave MIG alone."""
ANNOTATION_ALLOCATION = "harvesterhci.io/deviceAllocationDetails"
"""On a VirtualMachine: the devices that it holds, as JSON."""
ANNOTATION_CUSTOM_DRIVER = "sriovgpu.harvesterhci.io/custom-driver"
"""On a cluster node: where its driver comes from."""
ANNOTATION_PERMITTED = "devices.harvesterhci.io/laneway-permitted"
"""On a KubeVirt: Laneway's entries in its permitted devices. Not of Harvester."""
ANNOTATION_MOVED = "devices.harvesterhci.io/laneway-moved"
"""On an object whose spec came with a card from another slot: the version that was replaced. A
write with it follows the hardware and no user's request. Not of Harvester."""
ANNOTATION_REQUESTERS = "devices.harvesterhci.io/laneway-requesters"
"""On what requests devices, from a VirtualMachine to a pod: the users who request them, as JSON.
Only the webhook writes it. Not of Harvester."""
ANNOTATION_REQUESTED_BY = "devices.harvesterhci.io/laneway-requested-by"
"""On what leads to writes to hardware: the user who changed its desired state last, and when, as
JSON. Only the webhook writes it, and Laneway's agent where a layout or a moved card is the cause.
Not of Harvester."""
ANNOTATION_CAPACITY = "devices.harvesterhci.io/laneway-capacity"
"""On a MachineDeployment or MachineSet: what Laneway has written for the cluster autoscaler, as
JSON. Not of Harvester."""
ANNOTATION_HARDWARE_CHANGE = "devices.harvesterhci.io/laneway-hardware-change"
"""On an Event with reason `HardwareChanged`: what a plan did to hardware step by step, and for
which user, as JSON. Not of Harvester."""
ANNOTATION_REBOOT = "devices.harvesterhci.io/laneway-reboot"
"""On a HostPreparation: the boot that an administrator allows to end. Not of Harvester."""
ANNOTATION_FEATURE_LABELS = "devices.harvesterhci.io/laneway-feature-labels"
"""On a cluster node: the labels of `feature.node.kubernetes.io` that Laneway set there, because the
cluster has no Node Feature Discovery. Not of Harvester."""

FINALIZER_PCI_CLAIM = "wrangler.cattle.io/PCIDeviceClaimOnRemove"
"""On a PCIDeviceClaim until its device is released."""
FINALIZER_USB_CLAIM = "wrangler.cattle.io/usbClaimClient-device-claim-remove"
"""On a USBDeviceClaim until its device is released."""
FINALIZER_NODE = "wrangler.cattle.io/node-remove"
"""On a cluster node until Harvester's clean-up is over. Laneway sets none, and waits for it."""
