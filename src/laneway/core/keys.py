"""Labels, annotations and finalizers that Harvester's clients know, spelt as they spell them."""

LABEL_NODE = "nodename"
"""On every observed device; not on claims and MigConfigurations."""
LABEL_PARENT_NETWORK_DEVICE = "harvesterhci.io/parent-sriov-network-device"
"""On the PCIDevice of a VF: the SRIOVNetworkDevice that made it."""
LABEL_PARENT_GPU = "harvesterhci.io/parentSRIOVGPUDevice"
"""On a VF's PCIDevice, a VGPUDevice and a vGPU's claim: the SRIOVGPUDevice.

Clients filter by it.
"""
LABEL_DRIVER_NEEDED = "sriovgpu.harvesterhci.io/driver-needed"
"""`true` on a cluster node that has an SRIOVGPUDevice: the driver is installed there."""
LABEL_NODE_UID = "devices.harvesterhci.io/laneway-node-uid"
"""On a node's DeviceNode: the uid of the cluster's node, once its agent has seen it. Only what was
in the cluster can have left it. Harvester has none such."""
LABEL_BAREMETAL_GPUS = "harvesterhci.io/gpu-baremetal-workloads"
"""`true` on a cluster node whose GPUs are for containers."""

ANNOTATION_DRIVER = "harvesterhci.io/pcideviceDriver"
"""On a PCIDevice: its driver when it was first seen."""
ANNOTATION_RESOURCE_NAME = "pcidevice.harvesterhci.io/override-resource-name"
"""On a PCIDevice or its claim: replaces the resource name."""
ANNOTATION_SKIP_BINDING = "pcidevices.harvesterhci.io/skip-vfio-binding"
"""On a PCIDeviceClaim: its presence leaves the driver alone."""
ANNOTATION_INTERFACE = "sriov.devices.harvesterhi.io/interface-name"
"""On an SRIOVNetworkDevice; the domain really lacks the "c"."""
ANNOTATION_SKIP_MIG = "harvesterhci.io/skip-mig-configuration"
"""`true` on an SRIOVGPUDevice: share it by time, leave MIG alone."""
ANNOTATION_ALLOCATION = "harvesterhci.io/deviceAllocationDetails"
"""On a VirtualMachine: which devices it holds, as JSON."""
ANNOTATION_CUSTOM_DRIVER = "sriovgpu.harvesterhci.io/custom-driver"
"""On a cluster node: where its driver comes from."""
ANNOTATION_PERMITTED = "devices.harvesterhci.io/laneway-permitted"
"""On a KubeVirt: which entries of its permitted devices are Laneway's; Harvester has none such."""
ANNOTATION_MOVED = "devices.harvesterhci.io/laneway-moved"
"""On an object whose spec came with a card from another slot: the version over which it was
written. A write that says so of the version which it replaces follows the hardware, and nobody's
desired state. Harvester has none such."""
ANNOTATION_REQUESTERS = "devices.harvesterhci.io/laneway-requesters"
"""On what asks for devices, from a VirtualMachine to a pod: the users on whose behalf, as JSON.
Harvester has none such."""

FINALIZER_PCI_CLAIM = "wrangler.cattle.io/PCIDeviceClaimOnRemove"
"""On a PCIDeviceClaim until its device was given back."""
FINALIZER_USB_CLAIM = "wrangler.cattle.io/usbClaimClient-device-claim-remove"
"""The same on a USBDeviceClaim."""
FINALIZER_NODE = "wrangler.cattle.io/node-remove"
"""On a cluster node: Harvester's own clean-up holds it until it is over. Laneway sets none."""
