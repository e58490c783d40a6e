"""Why a VM cannot have the devices that it requests.

Of what there is not enough, `capacity` tells. The key words are those of Harvester's webhook, which
people search for.
"""

from __future__ import annotations

from laneway.core import keys
from laneway.core.phrases import few, quoted, shown
from laneway.core.refusals.base import Refusal


class ResourceNotFound(Refusal, frozen=True):
    """No device of any node goes by the name of a resource."""

    entry: str
    """What the VM calls the device."""
    resource: str
    closest: tuple[str, ...] = ()
    """Resources that there are and that are spelt alike."""

    @property
    def words(self) -> str:
        closest = f" Closest: {few(self.closest)}." if self.closest else ""
        return (
            f"No device has the resource {quoted(self.resource)}, which device "
            f"{quoted(self.entry)} of the VM requests.{closest} To list all resources: laneway "
            "capacity"
        )


class TooManyDevices(Refusal, frozen=True):
    """A VM requests more devices than are looked at."""

    count: int
    limit: int

    @property
    def words(self) -> str:
        return (
            f"The VM has {self.count} entries in hostDevices and gpus; at most {self.limit} are "
            "accepted. Remove the entries that it does not need."
        )


class DevicesOnMultipleNodes(Refusal, frozen=True):
    """A VM names devices that are on different nodes."""

    device: str
    """`pcidevice/node1-000008000`"""
    node: str
    other: str
    """The one that was found first."""
    other_node: str
    vm: str

    @property
    def words(self) -> str:
        return (
            f"device {self.device} is not on the same node in "
            "VirtualMachine.Spec.Template.Spec.Domain.Devices.HostDevices of "
            f"{self.vm}: it is on {self.node}, and {self.other} on {self.other_node}. A VM "
            "needs all of its devices on one node; name devices of one node."
        )


class NodeSelectorMismatch(Refusal, frozen=True):
    """The node of a named device has not the labels that the VM requests."""

    device: str
    node: str
    labels: tuple[tuple[str, str], ...]
    """Those that are missing."""

    @property
    def words(self) -> str:
        missing = few(f"{key}={value}" for key, value in self.labels)
        return (
            f"device {self.device} is on node {self.node}, which spec.template.spec.nodeSelector "
            f"excludes: the node does not have {missing}. Name a device of another node, or "
            "change the nodeSelector."
        )


class DuplicateDeviceName(Refusal, frozen=True):
    """Two devices of one VM have one name."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"device {quoted(self.name)} is listed more than once in hostDevices and gpus. Names "
            "must be unique; rename or remove the others."
        )


class DeviceNotClaimed(Refusal, frozen=True):
    """A named device is not claimed."""

    device: str
    place: str = ""
    """Node and address, `node1/0000:08:00.0`; empty where they are not known."""

    @property
    def words(self) -> str:
        kind, _, name = self.device.rpartition("/")
        if self.place and kind == "pcidevice":
            return (
                f"device {self.device} is not claimed. Claim it first: laneway claim {self.place}"
            )
        claim = "USBDeviceClaim" if kind == "usbdevice" else "PCIDeviceClaim"
        return f"device {self.device} is not claimed. Create {claim} {name} first."


class DeviceNotReady(Refusal, frozen=True):
    """A named device is claimed, or its vGPU enabled, and VMs cannot have it."""

    device: str
    cause: str
    """The reason of its condition."""
    message: str

    @property
    def words(self) -> str:
        said = f": {self.message}" if self.message else "."
        return f"device {self.device} is not ready ({self.cause}){said}"


class VgpuDisabled(Refusal, frozen=True):
    """A named vGPU is not enabled."""

    name: str

    @property
    def words(self) -> str:
        return (
            f"vGPU device {self.name} is not enabled. Enable it first: kubectl patch vgpudevice "
            f"{shown(self.name)} --type merge -p "
            """'{"spec":{"enabled":true,"vGPUTypeName":"PROFILE"}}'"""
        )


_NOBODY = (
    "and no record says who assigned it to this VM, which was stored before Laneway's webhook "
    "ran. A user with a right to all devices of the VM takes them over with: kubectl annotate "
    "--overwrite vm "
    f"NAME {keys.ANNOTATION_REQUESTERS}=me"
)


class ClaimedByOther(Refusal, frozen=True):
    """A named device is claimed by another user.

    The words do not say by whom: the API server may not know the requester.
    """

    device: str
    user: str

    @property
    def words(self) -> str:
        kind, _, name = self.device.rpartition("/")
        if not self.user:
            return f"device {self.device} is claimed by a user, {_NOBODY}"
        return (
            f"device {self.device} is claimed by another user, not by {quoted(self.user)}. Claim "
            "another device, or ask an administrator for the verb use on "
            f"{kind}claims {name}: kubectl get {kind}claim {name} shows its user."
        )


class ResourceClaimedByOthers(Refusal, frozen=True, tag="ClaimedByOther"):
    """Of the devices of one resource, too few on any node are the requester's."""

    resource: str
    count: int
    own: int
    """The most that he may use on one node."""
    user: str

    @property
    def words(self) -> str:
        if not self.user:
            return f"users have claimed devices of {self.resource}, {_NOBODY}"
        return (
            f"{self.resource}: the VM requests {self.count} on one node, where {quoted(self.user)} "
            f"may use {self.own}; other users have claimed the rest. Claim more devices, or ask an "
            "administrator for the verb use on their claims."
        )


class PodClaimedByOthers(Refusal, frozen=True, tag="ClaimedByOther"):
    """A pod requests devices of a resource that others have claimed; by whom is not said."""

    pod: str
    resource: str
    count: int
    own: int
    """The most on one node that the pod may have."""
    users: tuple[str, ...]
    """The users for whom it asks, its account last."""
    account: str
    """As which its containers run."""

    @property
    def words(self) -> str:
        return (
            f"pod {self.pod} requests {self.count} of {self.resource}, and may have {self.own} on "
            f"any node: other users have claimed the rest, and none of "
            f"{few(map(quoted, self.users))} may use their claims. Ask an administrator for the "
            "verb use on these claims or, for pods that a controller creates, to grant it to "
            f"{self.account}."
        )


class AnnotationReserved(Refusal, frozen=True):
    """Not admission, but another client says for whom devices are, or that they were judged."""

    title: str
    annotation: str

    @property
    def words(self) -> str:
        return (
            f"{self.title}: only Laneway's webhook writes the annotation {self.annotation}, which "
            "records what it has checked. Do not set or change it."
        )


class TooManyVgpus(Refusal, frozen=True):
    """A vGPU profile does not allow so many vGPUs in one VM."""

    profile: str
    count: int
    maximum: int
    instead: tuple[str, ...]
    """Profiles of the same board that do."""

    @property
    def words(self) -> str:
        allowed = (
            f"is supported only as the single vGPU of a VM, and this VM requests {self.count}"
            if self.maximum == 1
            else f"is supported in VMs with up to {self.maximum} vGPUs, and this VM requests "
            f"{self.count}"
        )
        instead = (
            f"Several vGPUs of these profiles are supported: {few(self.instead)}."
            if self.instead
            else "Request fewer vGPUs for each VM."
        )
        return f"{self.profile} {allowed}. {instead}"


class MultipleDisplays(Refusal, frozen=True):
    """More than one vGPU of a VM is to have a display with ramFB."""

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            "Only one display of a VM can have ramFB, and "
            f"{few(map(quoted, self.names))} all have it. Set virtualGPUOptions.display.enabled, "
            "or ramFB.enabled, to false on all but one."
        )


class ResourceInTwoLists(Refusal, frozen=True):
    """A VM requests one resource in `hostDevices` and in `gpus`."""

    resource: str
    hosts: tuple[str, ...]
    gpus: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{self.resource} is listed in hostDevices ({few(map(quoted, self.hosts))}) and in "
            f"gpus ({few(map(quoted, self.gpus))}). KubeVirt would pass the same device twice, and "
            "the VM would not start. Move all entries of this resource to one list: to gpus if "
            "one of them has virtualGPUOptions, otherwise to hostDevices."
        )


class UsbDeviceInGpus(Refusal, frozen=True):
    """A USB device stands where KubeVirt does not look for one."""

    entry: str
    resource: str

    @property
    def words(self) -> str:
        return (
            f"gpus entry {quoted(self.entry)} requests {self.resource}, which is a USB device. "
            "KubeVirt passes USB devices only from hostDevices. Move the entry there, without "
            "virtualGPUOptions."
        )


class ResourceNamesConflict(Refusal, frozen=True):
    """KubeVirt takes the devices of two resources from one variable."""

    resources: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{few(self.resources)} differ only in case, dots or slashes, which KubeVirt does not "
            "tell apart when it passes devices to a VM. Request one of them, or set "
            "another resource name (annotation "
            "pcidevice.harvesterhci.io/override-resource-name of their claims)."
        )


class DevicesOfRunningVm(Refusal, frozen=True, tag="DeviceInUse"):
    """Devices are to be detached from a VM that runs with them."""

    entries: tuple[str, ...]
    """What the VM calls them."""
    namespace: str
    vm: str

    @property
    def words(self) -> str:
        which = "device" if len(self.entries) == 1 else "devices"
        them = "it" if len(self.entries) == 1 else "them"
        return (
            f"{which} {few(map(quoted, self.entries))} cannot be detached: VM "
            f"{self.namespace}/{self.vm} is running with {them}, and KubeVirt detaches no device "
            f"from a running VM. Stop the VM first: virtctl stop {self.vm} -n {self.namespace}"
        )
