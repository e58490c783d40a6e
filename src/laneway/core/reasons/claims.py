"""Reasons about claims and their devices, and why a write is refused."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_CLAIMS = "From a claim to VMs"
_WRITES = "Refused writes"

REASONS = (
    ReasonText(
        "NotBound",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="The device of the claim is not bound.",
        remedy="See `Ready`.",
    ),
    ReasonText(
        "NotReady",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="The device is not as claimed or configured yet.",
        remedy="See `Bound`, of a vGPU `Ready`.",
    ),
    ReasonText(
        "NotPermitted",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning=(
            "KubeVirt's list of permitted devices has no entry for the device, or one by which "
            "KubeVirt offers it itself."
        ),
        remedy=(
            "Wait a moment. If it stays, check that `laneway manager` runs, and remove entries "
            "made by hand: `kubectl edit kubevirt -n harvester-system`."
        ),
    ),
    ReasonText(
        "NoKubeVirt",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="The cluster has no KubeVirt.",
        remedy="Install KubeVirt for VMs. Pods can have the device without it.",
    ),
    ReasonText(
        "Unknown",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="KubeVirt's list of permitted devices has not been read yet.",
        remedy="Wait. If it stays, read the log of the agent.",
    ),
    ReasonText(
        "Withdrawn",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="The device is being released, so it is not advertised.",
        remedy="See `Ready`, which names a holder.",
    ),
    ReasonText(
        "NotRegistered",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="The kubelet does not answer, or does not accept the resource.",
        remedy="Check the kubelet of the node. Laneway retries by itself.",
    ),
    ReasonText(
        "Unhealthy",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning=(
            "The device has failed, or a group member or a process blocks it. This can show for "
            "a moment while a VM stops."
        ),
        remedy="See the message. A failed GPU needs a reset or a reboot of the node.",
    ),
    ReasonText(
        "NotConfigured",
        _CLAIMS,
        on="VGPUDevice",
        meaning="The function has no vGPU, and none is requested.",
        remedy="Nothing. To request one, set `spec.enabled` and `spec.vGPUTypeName`.",
    ),
    ReasonText(
        "Releasing",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="The claim is being deleted, and Laneway is releasing the device.",
        remedy="Wait.",
    ),
    ReasonText(
        "StillPermitted",
        _CLAIMS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning=(
            "The claim is being deleted, and the manager has not removed KubeVirt's entry yet."
        ),
        remedy="Check that `laneway manager` runs.",
    ),
    ReasonText(
        "VgpuNotConfigured",
        _CLAIMS,
        on="PCIDeviceClaim",
        meaning=(
            "The claim belongs to a vGPU that is not configured yet, for instance after a boot."
        ),
        remedy="Wait. If it stays: `laneway explain vgpudevice/NAME`.",
    ),
    ReasonText(
        "DriverNotVfio",
        _CLAIMS,
        on="PCIDeviceClaim",
        meaning=(
            "The claim has the annotation `pcidevices.harvesterhci.io/skip-vfio-binding`, and "
            "the driver of the device is not for VMs."
        ),
        remedy="Bind the device to a VFIO driver, or remove the annotation.",
    ),
    ReasonText(
        "DeviceNeeded",
        _CLAIMS,
        on="PCIDeviceClaim",
        meaning=(
            "The node uses the device, or used it when the claim was created. A new claim stays "
            "refused when that use ends, because a bond or mount can be missing while a node "
            "boots."
        ),
        remedy=(
            "Free the device, then delete the claim and create it again. A claim that was bound "
            "before is bound again by itself."
        ),
    ),
    ReasonText(
        "NodeNotFound",
        _CLAIMS,
        on="PCIDeviceClaim, `laneway capacity`, VSphereMachine",
        meaning=(
            "The cluster has no node of this name, or no node with the Machine's provider id yet."
        ),
        remedy=(
            "Name a node that `kubectl get nodes` lists. A claim: delete it, or add the node. "
            "vSphere: wait until the Machine has joined."
        ),
    ),
    ReasonText(
        "DuplicateClaim",
        _CLAIMS,
        on="PCIDeviceClaim",
        meaning="Another claim claims the same device, so this one has no effect.",
        remedy="Delete it: `kubectl delete pcideviceclaim NAME`.",
    ),
    ReasonText(
        "UsbDevicesClaimed",
        _CLAIMS,
        on="PCIDeviceClaim",
        meaning="USB devices on the USB controller have claims.",
        remedy="Delete these claims: `kubectl delete usbdeviceclaim NAME`.",
    ),
    ReasonText(
        "ResourceNameInvalid",
        _CLAIMS,
        on="PCIDevice, PCIDeviceClaim",
        meaning=(
            "The annotation `pcidevice.harvesterhci.io/override-resource-name` is not a resource"
            " name."
        ),
        remedy="Correct or remove the annotation.",
    ),
    ReasonText(
        "FieldImmutable",
        _WRITES,
        on="every kind",
        meaning="The field identifies the device or the owner, and does not change.",
        remedy="Create another object.",
    ),
    ReasonText(
        "NotClaimable",
        _WRITES,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="The condition `Claimable` of the device is `False`.",
        remedy="See the reason of that condition: `kubectl describe pcidevice NAME`.",
    ),
    ReasonText(
        "GpuShared",
        _WRITES,
        on="PCIDeviceClaim, SRIOVGPUDevice, Node",
        meaning=(
            "GPUs are shared: enabled for vGPUs. So they cannot be claimed as a whole, be given "
            "to containers, or have their object deleted."
        ),
        remedy=(
            "Set `spec.enabled` of the SRIOVGPUDevices in the message to false: `laneway gpu "
            "disable NODE/ADDRESS`."
        ),
    ),
    ReasonText(
        "GpusForContainers",
        _WRITES,
        on="PCIDeviceClaim, SRIOVGPUDevice, VGPUDevice",
        meaning=(
            "The GPU serves containers, as its `spec.workload` or a label of its node says; or a "
            "device shares the IOMMU group of such a GPU. The message names pods that use GPUs of "
            "the node."
        ),
        remedy="Use another GPU, or have it serve VMs: run the command in the message.",
    ),
    ReasonText(
        "GpuServesVms",
        _WRITES,
        on="SRIOVGPUDevice, PCIDevice",
        meaning=(
            "`spec.workload` is to be Containers, and the GPU is claimed, has vGPUs or is enabled "
            "for them. The message names the claims, vGPUs and VMs."
        ),
        remedy="Run the command in the message, then set `spec.workload` again.",
    ),
    ReasonText(
        "GpuPodsRunning",
        _WRITES,
        on="Node, SRIOVGPUDevice, PCIDevice",
        meaning="Pods use the GPUs that are to serve VMs.",
        remedy="Delete the pods in the message: `kubectl delete pod NAME -n NAMESPACE`.",
    ),
    ReasonText(
        "NoGpu",
        _WRITES,
        on="PCIDevice",
        meaning="`spec.workload` is set on a device that is no whole GPU of NVIDIA, AMD or Intel.",
        remedy="Set it on the GPU.",
    ),
    ReasonText(
        "WorkloadsContradict",
        _WRITES,
        on="SRIOVGPUDevice, PCIDevice",
        meaning="The SRIOVGPUDevice and the PCIDevice of one GPU are to have different workloads.",
        remedy="Set `spec.workload` of one of them, and leave the other empty.",
    ),
    ReasonText(
        "UsbControllerClaimed",
        _WRITES,
        on="USBDeviceClaim",
        meaning="The USB controller of the device is claimed by a PCIDeviceClaim.",
        remedy=(
            "Use the device through the controller, or delete that claim: `kubectl delete "
            "pcideviceclaim NAME`."
        ),
    ),
    ReasonText(
        "UserNameForbidden",
        _WRITES,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="`spec.userName` names another user than the one who writes.",
        remedy=(
            "Leave `spec.userName` out. Claims for others need the verb `administer` on the claims."
        ),
    ),
    ReasonText(
        "NotClaimOwner",
        _WRITES,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="The claim belongs to another user.",
        remedy="Ask that user, or an administrator with the verb `administer`.",
    ),
    ReasonText(
        "ClaimManaged",
        _WRITES,
        on="PCIDeviceClaim",
        meaning="Laneway creates and deletes the claims of vGPUs.",
        remedy="Enable or disable the VGPUDevice instead.",
    ),
    ReasonText(
        "ClaimInUse",
        _WRITES,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="A VM or pod uses or names the device of the claim.",
        remedy=(
            "Delete the VM, or remove the device from it and restart it: `kubectl edit vm NAME -n "
            "NAMESPACE`. A VM that is only stopped keeps the device."
        ),
    ),
    ReasonText(
        "DeviceClaimed",
        _WRITES,
        on="PCIDevice, USBDevice",
        meaning="The device has a claim, so its object is not deleted.",
        remedy=(
            "Delete the claim first: `kubectl delete pcideviceclaim NAME` or `kubectl delete "
            "usbdeviceclaim NAME`."
        ),
    ),
    ReasonText(
        "VfsClaimed",
        _WRITES,
        on="SRIOVNetworkDevice",
        meaning="Virtual functions of the card are claimed, and a new number removes all of them.",
        remedy="Delete the claims in the message: `kubectl delete pcideviceclaim NAME`.",
    ),
    ReasonText(
        "FieldInvalid",
        _WRITES,
        on="VSphereMachine, VSphereMachineTemplate, VSphereVM, MachineDeployment, MachineSet, "
        "KubeadmControlPlane",
        meaning="A field has a value that it cannot have.",
        remedy="Correct the field in the message.",
    ),
    ReasonText(
        "ObjectUnreadable",
        _WRITES,
        on="every kind",
        meaning="The object cannot be decoded.",
        remedy="Correct the field in the message.",
    ),
    ReasonText(
        "InternalError",
        _WRITES,
        on="every kind",
        meaning="A rule of the webhook failed.",
        remedy="Report the traceback in the log of the webhook.",
    ),
)
