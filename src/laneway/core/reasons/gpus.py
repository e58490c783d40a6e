"""Reasons about GPUs, vGPUs, GPU instances and layouts."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_VGPUS = "GPUs and vGPUs"
_INSTANCES = "GPU instances (MIG)"
_LAYOUTS = "Layouts"
_CONTAINERS = "GPUs for containers"

REASONS = (
    ReasonText(
        "ProfileMissing",
        _VGPUS,
        on="VGPUDevice",
        meaning="`spec.enabled` is true, and `spec.vGPUTypeName` is empty.",
        remedy="Set `spec.vGPUTypeName` to a profile in the message.",
    ),
    ReasonText(
        "ProfileNotOffered",
        _VGPUS,
        on="VGPUDevice",
        meaning=(
            "The driver does not offer the profile for this function now. The message says why "
            "and what it offers."
        ),
        remedy="Set `spec.vGPUTypeName` to a name in `status.availableTypes`.",
    ),
    ReasonText(
        "ProfileExhausted",
        _VGPUS,
        on="VGPUDevice",
        meaning="The GPU has no room for another vGPU of the profile.",
        remedy=(
            "Disable one of the vGPUs in the message, or set a profile that still fits. Laneway "
            "retries when there is room."
        ),
    ),
    ReasonText(
        "GpuDisabled",
        _VGPUS,
        on="VGPUDevice",
        meaning="The GPU has no virtual functions, because it is not enabled.",
        remedy=(
            "Set `spec.enabled` of the SRIOVGPUDevice in the message to true: `laneway gpu "
            "enable NODE/ADDRESS`."
        ),
    ),
    ReasonText(
        "VfNotFound",
        _VGPUS,
        on="VGPUDevice",
        meaning="The virtual function is missing, although its GPU is enabled.",
        remedy=(
            "See `Ready` of the SRIOVGPUDevice. Laneway configures the vGPU when the function "
            "exists."
        ),
    ),
    ReasonText(
        "UnmanagedVgpu",
        _VGPUS,
        on="VGPUDevice",
        meaning="The function has a vGPU that was not configured through this object.",
        remedy=(
            "Leave it. Or take it over: set `spec.enabled` to true and `spec.vGPUTypeName` to "
            "its profile. Disable it afterwards to remove it."
        ),
    ),
    ReasonText(
        "UnmanagedProfile",
        _VGPUS,
        on="VGPUDevice",
        meaning=(
            "The function has a vGPU of another profile that was not configured through this"
            " object, so Laneway does not replace it."
        ),
        remedy=(
            "To keep it, set `spec.vGPUTypeName` to its profile. To remove it, set "
            "`spec.enabled` to false."
        ),
    ),
    ReasonText(
        "GpuNotReady",
        _VGPUS,
        on="VGPUDevice, MigConfiguration",
        meaning="The GPU is not in its desired state yet.",
        remedy=(
            "See the conditions of its SRIOVGPUDevice and MigConfiguration. Laneway continues by"
            " itself."
        ),
    ),
    ReasonText(
        "VgpusEnabled",
        _VGPUS,
        on="SRIOVGPUDevice, MigConfiguration",
        meaning="vGPUs of the GPU are enabled, and the change would remove them.",
        remedy="Set `spec.enabled` of the VGPUDevices in the message to false.",
    ),
    ReasonText(
        "GpuClaimed",
        _VGPUS,
        on="SRIOVGPUDevice, VGPUDevice",
        meaning="A PCIDeviceClaim claims the GPU as a whole.",
        remedy="Delete the claim: `kubectl delete pcideviceclaim NAME`.",
    ),
    ReasonText(
        "GpuUnreadable",
        _VGPUS,
        on="SRIOVGPUDevice, `laneway host`",
        meaning=(
            "`nvidia-smi` fails or prints what Laneway cannot read. The message has its exit "
            "status and output."
        ),
        remedy="Run `nvidia-smi -q` on the node. The GPU may be on vfio-pci, or may have failed.",
    ),
    ReasonText(
        "VgpuUnsupported",
        _VGPUS,
        on="`laneway host`",
        meaning="The device is no NVIDIA GPU with vGPU support.",
        remedy="Choose a GPU that `laneway devices` lists.",
    ),
    ReasonText(
        "NoProfiles",
        _VGPUS,
        on="SRIOVGPUDevice",
        meaning="The driver has no vGPU profile for this model.",
        remedy="Install a release of NVIDIA's vGPU driver for hosts that supports the model.",
    ),
    ReasonText(
        "MixedSizeUnsupported",
        _VGPUS,
        on="SRIOVGPUDevice, VGPULayout",
        meaning="The GPU or its driver does not support vGPUs of different sizes.",
        remedy="Request one size.",
    ),
    ReasonText(
        "SizesMixed",
        _VGPUS,
        on="VGPULayout, `laneway vgpu set`",
        meaning="vGPUs of several sizes are requested on a GPU that can have one size at a time.",
        remedy=(
            "Request one size, or set `spec.mode` to `MixedSize`: `laneway vgpu set` with `--mode "
            "MixedSize`."
        ),
    ),
    ReasonText(
        "ModeConflict",
        _VGPUS,
        on="SRIOVGPUDevice, VGPULayout",
        meaning=(
            "The requested mode and vGPUs exclude each other: modes `Passthrough` and `MIG` have"
            " no vGPUs, and time-sliced and MIG-backed profiles need different modes."
        ),
        remedy="Change the mode, leave it empty, or request other profiles.",
    ),
    ReasonText(
        "ModeInvalid",
        _VGPUS,
        on="`laneway gpu`, VGPULayout",
        meaning="No GPU mode has this name.",
        remedy="Use a mode in the message, or leave it empty.",
    ),
    ReasonText(
        "UnmanagedMode",
        _VGPUS,
        on="SRIOVGPUDevice",
        meaning=(
            "The GPU is in a mode that was not set through this object, and a change would "
            "remove its vGPUs or GPU instances."
        ),
        remedy=(
            "Set `spec.mode` to the present mode, then to the one you need: `laneway gpu enable "
            "NODE/ADDRESS --mode MODE`."
        ),
    ),
    ReasonText(
        "ParametersInvalid",
        _VGPUS,
        on="VGPUDevice, VGPULayout",
        meaning="The vGPU parameters are not `name=value` pairs.",
        remedy="Write `name=value,name=value`.",
    ),
    ReasonText(
        "CountInvalid",
        _VGPUS,
        on="VGPULayout, MigConfiguration",
        meaning="A requested count is negative, or 0 where it must be at least 1.",
        remedy="Request at least 1, or remove the entry.",
    ),
    ReasonText(
        "LayoutDoesNotFit",
        _VGPUS,
        on="VGPULayout, `laneway vgpu set`",
        meaning=(
            "The vGPUs do not fit on the GPU together, or the GPU has too few virtual functions "
            "for them."
        ),
        remedy="Request the count in the message, or a smaller profile.",
    ),
    ReasonText(
        "CreatingVgpuDevices",
        _VGPUS,
        on="SRIOVGPUDevice",
        meaning="The virtual functions exist, and their VGPUDevices are being created.",
        remedy=(
            "Wait until `Ready` is `True`: `kubectl wait --for=condition=Ready sriovgpudevice "
            "NAME`."
        ),
    ),
    ReasonText(
        "DeletingVgpuDevices",
        _VGPUS,
        on="SRIOVGPUDevice",
        meaning="The virtual functions are removed, and their VGPUDevices are being deleted.",
        remedy="Wait until `Ready` is `True`.",
    ),
    ReasonText(
        "MigUnsupported",
        _INSTANCES,
        on="SRIOVGPUDevice, VGPULayout",
        meaning="The GPU has no MIG mode.",
        remedy="Choose another mode, and time-sliced profiles.",
    ),
    ReasonText(
        "MigOnly",
        _INSTANCES,
        on="SRIOVGPUDevice",
        meaning="The GPU offers vGPUs only in MIG mode, which is off.",
        remedy=(
            "Set `spec.mode` to `MIGBacked`: `laneway gpu enable NODE/ADDRESS --mode MIGBacked`."
        ),
    ),
    ReasonText(
        "MigModeDisabled",
        _INSTANCES,
        on="MigConfiguration",
        meaning="GPU instances are requested of a GPU that is not in MIG mode.",
        remedy=(
            "Set `spec.mode` of the SRIOVGPUDevice in the message to `MIG`, or to `MIGBacked` "
            "for vGPUs."
        ),
    ),
    ReasonText(
        "MigConfigurationEnabled",
        _INSTANCES,
        on="SRIOVGPUDevice",
        meaning="A MigConfiguration requests GPU instances, so the GPU does not leave MIG mode.",
        remedy="Set `spec.enabled` of the MigConfiguration to false.",
    ),
    ReasonText(
        "NoGpuInstances",
        _INSTANCES,
        on="SRIOVGPUDevice, VGPUDevice",
        meaning="The GPU is in mode `MIGBacked` and has no GPU instance.",
        remedy=(
            "Configure vGPUs, which creates the GPU instances too: `laneway vgpu set NODE/ADDRESS "
            "PROFILE`. Or request GPU instances in the MigConfiguration of the same name."
        ),
    ),
    ReasonText(
        "InstancesDoNotFit",
        _INSTANCES,
        on="MigConfiguration, VGPULayout",
        meaning="The GPU instances do not fit on the GPU together.",
        remedy="Request fewer or smaller ones.",
    ),
    ReasonText(
        "UnmanagedInstances",
        _INSTANCES,
        on="MigConfiguration",
        meaning="The GPU has GPU instances, and this object requests none.",
        remedy=(
            "Leave them. Or take them over: request them, and set `spec.enabled` to true. Set it"
            " to false afterwards to destroy them."
        ),
    ),
    ReasonText(
        "ExtraInstances",
        _INSTANCES,
        on="MigConfiguration",
        meaning="The GPU has GPU instances that this object does not request.",
        remedy=(
            "To keep them, request them as well. To destroy them, request them, and then remove "
            "them from the request."
        ),
    ),
    ReasonText(
        "DuplicateProfile",
        _INSTANCES,
        on="MigConfiguration",
        meaning="`spec.profileSpec` names a profile twice.",
        remedy="Request it in one entry.",
    ),
    ReasonText(
        "OwnedByLayout",
        _LAYOUTS,
        on="VGPULayout, VGPUDevice, SRIOVGPUDevice",
        meaning="Another VGPULayout configures the GPU.",
        remedy=(
            "Change that layout: `kubectl edit vgpulayout NAME`. Or delete it, which changes no "
            "vGPU."
        ),
    ),
    ReasonText(
        "OwnedByVgpuDevices",
        _LAYOUTS,
        on="VGPULayout",
        meaning="Individual VGPUDevices of the GPU request other vGPUs than the layout.",
        remedy=(
            "Set `spec.takeOver` of the layout to true (`laneway vgpu set --take-over`), or "
            "disable these VGPUDevices."
        ),
    ),
    ReasonText(
        "ApprovalRequired",
        _LAYOUTS,
        on="VGPULayout",
        meaning=(
            "The layout was refused when it was written, and is possible now. Laneway does not "
            "apply it unasked."
        ),
        remedy="Set `spec.whenPossible` to true.",
    ),
    ReasonText(
        "UpdateRejected",
        _LAYOUTS,
        on="VGPULayout",
        meaning=(
            "Admission does not let the layout change an object of the GPU, for instance because"
            " a VM names a vGPU."
        ),
        remedy="Do what the message says. Laneway retries by itself.",
    ),
    ReasonText(
        "Refused",
        _LAYOUTS,
        on="VGPULayout",
        meaning="Some selected GPUs refuse the layout.",
        remedy="See the message of each GPU in `status.gpus`.",
    ),
    ReasonText(
        "AgentNotReporting",
        _LAYOUTS,
        on="VGPULayout, PCIDeviceClaim, USBDeviceClaim",
        meaning="No agent has reported on the object.",
        remedy=(
            "Check that the agent of its node runs, and that `spec.gpuSelector.names` has names "
            "of SRIOVGPUDevices."
        ),
    ),
    ReasonText(
        "NoGpuSelected",
        _LAYOUTS,
        on="VGPULayout",
        meaning="The layout selects no GPU of any node.",
        remedy="Check the labels of the nodes, `spec.nodeSelector` and `spec.gpuSelector`.",
    ),
    ReasonText(
        "DryRun",
        _LAYOUTS,
        on="VGPULayout",
        meaning="`spec.dryRun` is true: `status.gpus` has the steps, and nothing changes.",
        remedy=(
            "To apply them: `kubectl patch vgpulayout NAME --type merge -p "
            '\'{"spec":{"dryRun":false}}\'`.'
        ),
    ),
    ReasonText(
        "ContainerGpuUnserved",
        _CONTAINERS,
        on="Node (of the device group)",
        meaning="A GPU is to serve containers, and its driver is not bound to it.",
        remedy=(
            "Delete its claim, or disable its virtual functions; or install the vendor's driver. "
            "`laneway doctor node` says what is missing."
        ),
    ),
    ReasonText(
        "ContainerGpusMixed",
        _CONTAINERS,
        on="Node (of the device group)",
        meaning=(
            "The node has GPUs of one vendor for containers, and others for VMs that are on the "
            "vendor's driver. The vendor's device plugin would advertise all of them, so Laneway "
            "does not let it run there."
        ),
        remedy=(
            "Claim the GPUs for VMs, which puts them on vfio-pci, or have them serve containers "
            "too."
        ),
    ),
    ReasonText(
        "ContainersServed",
        _CONTAINERS,
        on="Node (of the device group)",
        meaning="The GPUs in the message are for containers, and on their vendor's driver.",
        remedy="Nothing.",
    ),
    ReasonText(
        "NoContainerGpus",
        _CONTAINERS,
        on="Node (of the device group)",
        meaning="The node had GPUs for containers, and has none any more.",
        remedy="Nothing.",
    ),
)
