"""Reasons about devices, their drivers, virtual functions and changes of hardware."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_DEVICES = "Devices and their drivers"
_CHANGES = "Changes of hardware"
_VFS = "Virtual functions"
_CLAIMABLE = "`Claimable` and `Shareable`"

REASONS = (
    ReasonText(
        "DeviceNotFound",
        _DEVICES,
        on="PCIDevice, PCIDeviceClaim, USBDeviceClaim",
        meaning="The node has no such device, or the cluster has no object of it.",
        remedy=(
            "Choose a device that `laneway devices` or `kubectl get pcidevices` lists. Addresses"
            " change when cards are added. Plug an unplugged USB device in again, or delete its "
            "claim."
        ),
    ),
    ReasonText(
        "DeviceUnusable",
        _DEVICES,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="VMs cannot have the device. The message holds each reason of `Claimable`.",
        remedy="See the reason in the message.",
    ),
    ReasonText(
        "DeviceInUse",
        _DEVICES,
        on="every kind",
        meaning=(
            "A VM, a pod, a process, a mount, swap space or a network interface uses what the "
            "change would remove. The message names it."
        ),
        remedy=(
            "Delete the VM, or remove the device from it and restart it: `kubectl edit vm NAME "
            "-n NAMESPACE`. A VM that is only stopped keeps the device. End other users as the "
            "message says. Laneway retries by itself."
        ),
    ),
    ReasonText(
        "DeviceAllocated",
        _DEVICES,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning=(
            "The object is being deleted or changed, and the kubelet has allocated the device to"
            " a VM or pod."
        ),
        remedy=(
            "Stop that VM (`virtctl stop NAME -n NAMESPACE`) or delete that pod. Laneway then "
            "continues by itself."
        ),
    ),
    ReasonText(
        "HoldersUnknown",
        _DEVICES,
        on="every kind",
        meaning=(
            "Laneway cannot see who uses the device, so it changes nothing: the processes of the"
            " host, the pods of the kubelet or the ResourceClaims cannot be read. The message "
            "says which."
        ),
        remedy=(
            "Run Laneway as root in the PID namespace of the host, and check the kubelet of the "
            "node and the rights of the agent. Laneway retries by itself."
        ),
    ),
    ReasonText(
        "DeviceDisappeared",
        _DEVICES,
        on="every kind",
        meaning="The device left its bus while a plan changed it.",
        remedy="Read the kernel log of the node: `dmesg`. Nothing is left to undo on the device.",
    ),
    ReasonText(
        "DeviceReplaced",
        _DEVICES,
        on="PCIDeviceClaim, `laneway host`",
        meaning=(
            "Another device than the claimed one is at the address or USB port, for instance"
            " because cards were moved."
        ),
        remedy="Delete the claim, and claim the device you mean: `kubectl get pcidevices`.",
    ),
    ReasonText(
        "DriverReserved",
        _DEVICES,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="`driver_override` reserves the device for a driver, and Laneway did not set it.",
        remedy="Remove the override: `driverctl unset-override ADDRESS`.",
    ),
    ReasonText(
        "DeviceQuarantined",
        _DEVICES,
        on="PCIDeviceClaim, `laneway host`",
        meaning="A reset of the device failed, so no VM gets it.",
        remedy="Reboot the node, or run `laneway host quarantine --lift ADDRESS` on it.",
    ),
    ReasonText(
        "VfioMissing",
        _DEVICES,
        on="PCIDeviceClaim, `laneway host`",
        meaning="The running kernel has no vfio-pci.",
        remedy="Install the package with the kernel's modules.",
    ),
    ReasonText(
        "DriverMissing",
        _DEVICES,
        on="SRIOVGPUDevice, VGPUDevice, MigConfiguration",
        meaning="The device is on another driver, or on none, so nothing can be configured on it.",
        remedy=(
            "Install or load the driver that the message names. A device on vfio-pci: `laneway "
            "release NODE/ADDRESS`."
        ),
    ),
    ReasonText(
        "ToolMissing",
        _DEVICES,
        on="SRIOVGPUDevice",
        meaning=(
            "A program of NVIDIA's vGPU driver, `nvidia-smi` or `sriov-manage`, is not installed."
        ),
        remedy="Install NVIDIA's vGPU driver for hosts on the node.",
    ),
    ReasonText(
        "NameMismatch",
        _DEVICES,
        on="every kind",
        meaning="The name of the object and its `spec` are about different devices.",
        remedy=(
            "Delete the object and create it with the name in the message. Laneway creates one "
            "object for each device itself."
        ),
    ),
    ReasonText(
        "ReadFailed",
        _DEVICES,
        on="PCIDevice, PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="A part of the device cannot be read. Laneway leaves the device as it is.",
        remedy=(
            "Read the attribute in the message, and the kernel log of the node. Laneway retries "
            "every 30 seconds."
        ),
    ),
    ReasonText(
        "PartiallyObserved",
        _DEVICES,
        on="Node",
        meaning=(
            "A device or folder of the node cannot be read. Laneway deletes no object meanwhile."
        ),
        remedy="See the message.",
    ),
    ReasonText(
        "NoKubelet",
        _DEVICES,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="The agent finds no folder of a kubelet, so nothing allocates the device.",
        remedy=("Set `--kubelet-dir` of `laneway agent`. A host without a kubelet needs nothing."),
    ),
    ReasonText(
        "InProgress",
        _CHANGES,
        on="every kind",
        meaning="The steps in the message are running.",
        remedy="Wait. A step that a held device blocks ends with `WriteFailed` after 30 seconds.",
    ),
    ReasonText(
        "WriteFailed",
        _CHANGES,
        on="every kind",
        meaning=(
            "The kernel, the driver or its program refused a step. Laneway has undone the steps "
            "before it."
        ),
        remedy=(
            "Read the error in the message: `EBUSY` means that a VM holds the device. Laneway "
            "retries every 30 seconds, and when the card changes; after an undone change only "
            "when the card or the spec changes."
        ),
    ),
    ReasonText(
        "HostBusy",
        _CHANGES,
        on="`laneway host`",
        meaning="Another Laneway process changes this host.",
        remedy="Wait until it ends, or stop the agent of the node.",
    ),
    ReasonText(
        "DeviceChanged",
        _CHANGES,
        on="`laneway host`",
        meaning="A plan was interrupted, and another program has changed the device since.",
        remedy="Examine the device: `laneway explain NODE/ADDRESS`. Then request what you need.",
    ),
    ReasonText(
        "CardReplaced",
        _CHANGES,
        on="SRIOVGPUDevice, VGPUDevice, MigConfiguration",
        meaning=(
            "The configuration belongs to another card than the one at this address. The message"
            " names both by UUID."
        ),
        remedy=(
            "Configuration follows a card that is still in the node. For a new card, set "
            "`spec.mode` of the SRIOVGPUDevice to apply the configuration, or `spec.enabled` to "
            "false to drop it."
        ),
    ),
    ReasonText(
        "NoSriov",
        _VFS,
        on="SRIOVGPUDevice, SRIOVNetworkDevice",
        meaning="The device has no virtual functions.",
        remedy=(
            "If the model supports SR-IOV, enable it in the firmware of the node and of the card."
        ),
    ),
    ReasonText(
        "NoIommuGroup",
        _VFS,
        on="PCIDevice, PCIDeviceClaim, SRIOVGPUDevice",
        meaning="The device is in no IOMMU group, because the IOMMU is disabled.",
        remedy=(
            "Enable VT-d, AMD-Vi or the SMMU in the firmware, on Intel also `intel_iommu=on` on "
            "the kernel command line. Reboot the node."
        ),
    ),
    ReasonText(
        "VfCountInvalid",
        _VFS,
        on="SRIOVNetworkDevice, `laneway host`",
        meaning="The device cannot have this number of virtual functions.",
        remedy="Request a number in the range of the message. A GPU has all of them or none.",
    ),
    ReasonText(
        "UnmanagedVfs",
        _VFS,
        on="SRIOVGPUDevice, SRIOVNetworkDevice",
        meaning="The card has virtual functions that were not created through this object.",
        remedy=(
            "Leave them. Or take them over: set `spec.enabled` to true, or `spec.numVFs` to "
            "their number. Request none afterwards to remove them."
        ),
    ),
    ReasonText(
        "UnmanagedVfCount",
        _VFS,
        on="SRIOVNetworkDevice",
        meaning=(
            "The card has another number of virtual functions, which was not set through this "
            "object."
        ),
        remedy="Set `spec.numVFs` to the present number, then to the one you need.",
    ),
    ReasonText(
        "VfsIncomplete",
        _VFS,
        on="SRIOVGPUDevice, `laneway host`",
        meaning="`sriov-manage` created only a part of the GPU's virtual functions.",
        remedy=(
            "Read the kernel log. Disable the GPU and enable it again: `laneway gpu disable "
            "NODE/ADDRESS`, `laneway gpu enable NODE/ADDRESS`."
        ),
    ),
    ReasonText(
        "VfDriverMissing",
        _VFS,
        on="SRIOVGPUDevice",
        meaning="The driver is not bound to some virtual functions of the GPU.",
        remedy=(
            "Read the kernel log. Disable the GPU and enable it again: `laneway gpu disable "
            "NODE/ADDRESS`, `laneway gpu enable NODE/ADDRESS`."
        ),
    ),
    ReasonText(
        "CriticalToNode",
        _VFS,
        on="PCIDevice, USBDevice, PCIDeviceClaim, SRIOVNetworkDevice",
        meaning=(
            "The node needs the device: its disk, its BMC, or a network card with an address or "
            "in a bond, bridge, team or VLAN. The message and `status.critical` say why."
        ),
        remedy=(
            "Free the device first. A network interface: `ip link set NAME nomaster` and `ip "
            "address flush dev NAME`, and the same in the node's configuration; on Harvester, "
            "change its VlanConfig."
        ),
    ),
    ReasonText(
        "GroupMemberCritical",
        _CLAIMABLE,
        on="PCIDevice",
        meaning=(
            "A group member is critical to the node, and an IOMMU group is passed through as a "
            "whole."
        ),
        remedy="Move the card to another slot, or enable ACS in the firmware.",
    ),
    ReasonText(
        "GroupMemberInUse",
        _CLAIMABLE,
        on="PCIDevice, PCIDeviceClaim",
        meaning=(
            "A group member is in use by the node, and an IOMMU group is passed through as a whole."
        ),
        remedy="Free that device, or move the card to another slot.",
    ),
    ReasonText(
        "VirtualFunctionsEnabled",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="The device has virtual functions.",
        remedy=(
            "Use these in VMs, or disable them to pass the device as a whole: `laneway gpu "
            "disable NODE/ADDRESS`, of a network card `spec.numVFs` 0."
        ),
    ),
    ReasonText(
        "VgpuConfigured",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="The function has a vGPU.",
        remedy="Use the vGPU in a VM.",
    ),
    ReasonText(
        "VgpuFunction",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="The function is a virtual function of a GPU, for vGPUs.",
        remedy="Configure its VGPUDevice, and use the vGPU in a VM.",
    ),
    ReasonText(
        "Bridge",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="The device is a bridge of the node.",
        remedy="Choose another device.",
    ),
    ReasonText(
        "UsbHub",
        _CLAIMABLE,
        on="USBDevice",
        meaning="The device is a USB hub.",
        remedy="Claim the devices on it.",
    ),
    ReasonText(
        "GroupMembers",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="With the claim, other devices of the IOMMU group also leave the node.",
        remedy="Check that the node does not need them.",
    ),
    ReasonText(
        "NoResetMethod",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="A warning: the kernel cannot reset the device between two VMs.",
        remedy="Expect to reboot the node after use.",
    ),
    ReasonText(
        "ConsoleDisplay",
        _CLAIMABLE,
        on="PCIDevice",
        meaning=(
            "A warning: the device shows the console of the node, which stays blank until the "
            "next boot."
        ),
        remedy="Make sure that you reach the node over the network.",
    ),
    ReasonText(
        "AlreadyOnVfio",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="The device is on vfio-pci already.",
        remedy="Nothing.",
    ),
    ReasonText(
        "SriovDisabled",
        _CLAIMABLE,
        on="PCIDevice",
        meaning="The GPU shows no SR-IOV, so it cannot have vGPUs.",
        remedy=(
            "Enable SR-IOV in the firmware of node and card. Workstation cards also need their "
            "display disabled, with NVIDIA's displaymodeselector. Reboot the node."
        ),
    ),
)
