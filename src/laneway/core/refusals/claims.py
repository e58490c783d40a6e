"""Why a claim is not carried out, or its end not yet."""

from __future__ import annotations

from laneway.core import keys
from laneway.core.phrases import quoted
from laneway.core.refusals.base import Refusal
from laneway.core.workload import Workload


class ClaimNameMismatch(Refusal, frozen=True, tag="NameMismatch"):
    """A claim does not bear the name of the PCIDevice that its spec speaks of."""

    name: str
    address: str
    node: str
    expected: str
    """Name of that PCIDevice; empty where the address is none."""

    @property
    def words(self) -> str:
        if not self.expected:
            return (
                f"spec.address {quoted(self.address)} is not a PCI address, so nothing is "
                "claimed. Delete this claim, and claim a PCIDevice by its name. To list them: "
                "kubectl get pcidevices"
            )
        return (
            f"A claim has the name of its PCIDevice: that of {quoted(self.address)} on node "
            f"{quoted(self.node)} is {self.expected}, not {self.name}. Delete this claim, and "
            f"create one with that name: kubectl delete pcideviceclaim {self.name}"
        )


class DeviceNeeded(Refusal, frozen=True):
    """A device is claimed that the node uses, or used when the claim was made.

    A new claim is not bound once that use ends: a bond that is missing for a moment, as it is while
    a node starts, must not cost the node its network.
    """

    device: str
    reasons: tuple[str, ...] = ()
    """Why the node needs it; empty once it does not any more."""
    remedies: tuple[str, ...] = ()
    was_bound: bool = False
    """Whether the claim has been bound before: it is bound again when the use ends."""

    @property
    def words(self) -> str:
        again = "delete the claim and create it again."
        if not self.reasons:
            return (
                f"The node used {self.device} when the claim was created, so the claim stays "
                f"refused, although the device is free now. To claim the device, {again}"
            )
        return " ".join(
            (
                f"{self.device} cannot be passed to VMs: {'; '.join(self.reasons)}.",
                *self.remedies,
                "The claim was bound before, and is bound again when the node no longer uses the "
                "device."
                if self.was_bound
                else f"The claim stays refused after that: {again}",
            )
        )


class ClaimNodeNotFound(Refusal, frozen=True, tag="NodeNotFound"):
    """A claim names a node that the cluster does not have."""

    name: str
    node: str

    @property
    def words(self) -> str:
        return (
            f"The cluster has no node {quoted(self.node)}, which spec.nodeName of {self.name} "
            "names, so the claim has no effect. Add the node, or delete the claim: kubectl delete "
            f"pcideviceclaim {self.name}"
        )


class DuplicateClaim(Refusal, frozen=True):
    """Another claim, which has the right name, claims the same device."""

    name: str
    other: str

    @property
    def words(self) -> str:
        return (
            f"PCIDeviceClaim {self.other} claims this device already, so {self.name} has no "
            f"effect. Delete it: kubectl delete pcideviceclaim {self.name}"
        )


class DeviceReplaced(Refusal, frozen=True):
    """Another device than the one that was claimed is at its address."""

    device: str
    claimed: str
    found: str

    @property
    def words(self) -> str:
        return (
            f"Another device is at {self.device} now: {self.found}. The claim was created for "
            f"{self.claimed}, so it stays unbound. Delete this claim, and claim the device under "
            "the name of its present PCIDevice. To list them: kubectl get pcidevices"
        )


class DriverNotVfio(Refusal, frozen=True):
    """A claim leaves the driver alone, and VMs cannot use a device through it."""

    device: str
    driver: str

    @property
    def words(self) -> str:
        has = f"is on driver {self.driver}" if self.driver else "has no driver"
        return (
            f"{self.device} {has} and has no vGPU, so VMs cannot use it. The annotation "
            f"{keys.ANNOTATION_SKIP_BINDING} of this claim keeps Laneway from binding it to "
            "vfio-pci. Bind it to a VFIO driver, or claim it without that annotation."
        )


class VgpuNotConfigured(Refusal, frozen=True):
    """A claim that Laneway made for a vGPU waits for it, as after a boot."""

    vgpu: str
    """Name of the VGPUDevice."""

    @property
    def words(self) -> str:
        return (
            f"VGPUDevice {self.vgpu} is not configured yet; the claim follows by itself. To see "
            f"why: kubectl describe vgpudevice {self.vgpu}"
        )


class DeviceAllocated(Refusal, frozen=True):
    """The kubelet gave the device to a pod, which has not ended."""

    device: str
    namespace: str
    pod: str
    virtual_machine: str = ""
    resource_claim: str = ""
    """Namespace and name of the ResourceClaim that has it instead."""

    @property
    def words(self) -> str:
        if self.resource_claim:
            user, end = f"ResourceClaim {self.resource_claim}", "Delete the pods that use it."
        elif self.virtual_machine:
            user = str(Workload(self.namespace, self.pod, self.virtual_machine))
            end = f"Stop this VM: virtctl stop {self.virtual_machine} -n {self.namespace}"
        elif self.pod:
            user = str(Workload(self.namespace, self.pod))
            end = f"Delete this pod: kubectl delete pod {self.pod} -n {self.namespace}"
        else:
            user = "a pod that is just starting"
            end = "Wait until it runs; this message then names it."
        return f"{self.device} is allocated to {user}. {end}"


class UsbDeviceNotFound(Refusal, frozen=True, tag="DeviceNotFound"):
    """The device of a USBDeviceClaim is not plugged in."""

    name: str
    port: str = ""
    """Where it was; empty where it never was."""
    candidates: tuple[str, ...] = ()
    """Ports at which devices of its kind are, of which none is clearly the one."""

    @property
    def words(self) -> str:
        where = f" at port {self.port}" if self.port else ""
        if self.candidates:
            return (
                f"The USB device {self.name}{where} is gone. Devices of its kind are at "
                f"{', '.join(self.candidates)}, but which of them it is cannot be determined. Plug "
                "it in at its old port, or delete this claim and claim the right one."
            )
        if self.port:
            return (
                f"The USB device {self.name}{where} is gone. Plug it in again, or delete this "
                f"claim: kubectl delete usbdeviceclaim {self.name}"
            )
        return (
            f"USBDevice {self.name} does not exist. A claim has the name of its device. To list "
            "them: kubectl get usbdevices"
        )


class UsbDevicesClaimed(Refusal, frozen=True):
    """USB devices on a controller are claimed, and would go with it."""

    device: str
    claims: tuple[str, ...]
    """Their names, each with what it claims: `node1-046d-c52b-003011 (Logitech Receiver)`."""

    @property
    def words(self) -> str:
        names = (claim.partition(" ")[0] for claim in self.claims)
        return (
            f"USB devices on the controller {self.device} are claimed: "
            f"{', '.join(self.claims)}. Delete these claims first: kubectl delete usbdeviceclaim "
            f"{' '.join(names)}"
        )
