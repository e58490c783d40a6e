"""Reasons about the devices of VMs and pods, and whether there are enough."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_VMS = "VMs and pods"
_CAPACITY = "Capacity"

REASONS = (
    ReasonText(
        "ResourceNotFound",
        _VMS,
        on="VirtualMachine, MachineDeployment, `laneway capacity`",
        meaning="No device has the requested resource name.",
        remedy=(
            "Use a name that `laneway capacity` lists, claim such a device (`laneway claim "
            "NODE/ADDRESS`), or configure such a vGPU (`laneway vgpu set NODE/ADDRESS PROFILE`)."
        ),
    ),
    ReasonText(
        "TooManyDevices",
        _VMS,
        on="VirtualMachine, MachineDeployment",
        meaning="`hostDevices` and `gpus` have more than 64 entries together.",
        remedy="Remove entries.",
    ),
    ReasonText(
        "DevicesOnMultipleNodes",
        _VMS,
        on="VirtualMachine",
        meaning="The VM names devices of different nodes.",
        remedy="Name devices of one node.",
    ),
    ReasonText(
        "NodeSelectorMismatch",
        _VMS,
        on="VirtualMachine, `laneway capacity`",
        meaning="The node of a named device, or every node, lacks the labels of the selector.",
        remedy="Name a device of another node, change the selector, or label a node.",
    ),
    ReasonText(
        "DuplicateDeviceName",
        _VMS,
        on="VirtualMachine, MachineDeployment",
        meaning="Two entries of `hostDevices` and `gpus` have one name.",
        remedy="Rename or remove one.",
    ),
    ReasonText(
        "DeviceNotClaimed",
        _VMS,
        on="VirtualMachine",
        meaning="A named device has no claim.",
        remedy="Claim it: `laneway claim NODE/ADDRESS`.",
    ),
    ReasonText(
        "DeviceNotReady",
        _VMS,
        on="VirtualMachine",
        meaning=(
            "A named device is claimed or enabled, and not ready. The message has the reason of "
            "its condition."
        ),
        remedy="See that reason: `laneway explain NAME`.",
    ),
    ReasonText(
        "VgpuDisabled",
        _VMS,
        on="VirtualMachine",
        meaning="A named vGPU is not enabled.",
        remedy=(
            "Set `spec.enabled` and `spec.vGPUTypeName` of the VGPUDevice, or configure the GPU: "
            "`laneway vgpu set NODE/ADDRESS PROFILE`."
        ),
    ),
    ReasonText(
        "ClaimedByOther",
        _VMS,
        on="VirtualMachine, VirtualMachinePool, Pod",
        meaning="The devices are claimed by other users.",
        remedy=(
            "Claim devices yourself, or get the verb `use` on the claims. A pod of a controller "
            "needs it for its ServiceAccount."
        ),
    ),
    ReasonText(
        "AnnotationReserved",
        _VMS,
        on="VirtualMachine, Pod",
        meaning="The write sets an annotation that only Laneway's webhook sets.",
        remedy="Leave the annotation out.",
    ),
    ReasonText(
        "TooManyVgpus",
        _VMS,
        on="VirtualMachine",
        meaning="The profile does not allow so many vGPUs in one VM.",
        remedy="Use a profile in the message, or fewer vGPUs.",
    ),
    ReasonText(
        "ResourceInTwoLists",
        _VMS,
        on="VirtualMachine",
        meaning=(
            "A resource is in `hostDevices` and in `gpus`, and KubeVirt would pass one device "
            "twice."
        ),
        remedy="Move all entries of the resource to one list.",
    ),
    ReasonText(
        "UsbDeviceInGpus",
        _VMS,
        on="VirtualMachine",
        meaning="A USB device is in `gpus`, where KubeVirt does not pass USB devices.",
        remedy="Move the entry to `hostDevices`, without `virtualGPUOptions`.",
    ),
    ReasonText(
        "ResourceNamesConflict",
        _VMS,
        on="VirtualMachine",
        meaning="KubeVirt does not tell the names of two requested resources apart.",
        remedy="Request one of them, or give one another resource name.",
    ),
    ReasonText(
        "MultipleDisplays",
        _VMS,
        on="VirtualMachine, MachineDeployment",
        meaning="More than one vGPU of the VM has a display with ramFB.",
        remedy="Set `display.enabled` or `ramFB.enabled` to false on all but one.",
    ),
    ReasonText(
        "InsufficientDevices",
        _CAPACITY,
        on="VirtualMachine, MachineDeployment, `laneway capacity`",
        meaning=(
            "The nodes have too few free devices of a resource. The message says who holds them."
        ),
        remedy=(
            "Request fewer, delete a VM that has some, configure more vGPUs on a GPU with room "
            "(`laneway gpus`), or claim more devices (`laneway claim NODE/ADDRESS`)."
        ),
    ),
    ReasonText(
        "NoNodeFits",
        _CAPACITY,
        on="VirtualMachine, MachineDeployment, `laneway capacity`",
        meaning=(
            "The cluster has enough of every resource, and no node has all that one VM requests."
        ),
        remedy=(
            "Request fewer, or free what the message names on one node. To see what uses it: "
            "`laneway capacity`."
        ),
    ),
    ReasonText(
        "RolloutBlocked",
        _CAPACITY,
        on="`laneway capacity`",
        meaning="VMs are replaced one by one, and no devices are free for the new one.",
        remedy=(
            "Free as many devices as the message says, or allow one VM to be unavailable: "
            "`--unavailable 1`."
        ),
    ),
)
