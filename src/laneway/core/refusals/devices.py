"""Why a device is not given away, or not worked with."""

from __future__ import annotations

from laneway.core.phrases import quoted
from laneway.core.refusals.base import Refusal


class DeviceNotFound(Refusal, frozen=True):
    """There is no such device on this host."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"Device {self.device} does not exist on this host. To list the devices: laneway "
            "devices --all"
        )


class NameMismatch(Refusal, frozen=True):
    """The object's name and its spec speak of different devices, or of none."""

    name: str
    address: str
    node: str

    @property
    def words(self) -> str:
        return (
            f"spec.address {quoted(self.address)} on node {quoted(self.node)} is not the device "
            f"of the name {self.name}, so this object has no effect. Delete it; the agent creates "
            "one object for each device of its node."
        )


class CardReplaced(Refusal, frozen=True):
    """Another card than the one that the desired state was made for is in its place."""

    device: str
    meant: str
    """UUID of the card."""
    found: str
    """UUID of the one that is there; empty while not known."""
    place: str
    """Where the card is now; empty where the node does not show it."""

    @property
    def words(self) -> str:
        if not self.found:
            return (
                f"This configuration belongs to card {self.meant}, and the driver has not reported "
                f"the UUID of the card at {self.device} yet. It is applied once the UUID is known."
            )
        if not self.place:
            return (
                f"This configuration belongs to card {self.meant}, which is not in this node; at "
                f"{self.device} is {self.found}. To apply it to this card, change the spec of the "
                "SRIOVGPUDevice, for instance spec.mode to SameSize. To drop it, set spec.enabled "
                "to false there."
            )
        return (
            f"This configuration belongs to card {self.meant}, which is at {self.place} now; at "
            f"{self.device} is {self.found}. It follows the card once every GPU of the node "
            f"reports its UUID and nothing else is configured for {self.place}."
        )


class UsbDeviceReplaced(Refusal, frozen=True, tag="DeviceReplaced"):
    """At the USB port is not the device that was there when this was requested."""

    port: str
    seen: str
    now: str

    @property
    def words(self) -> str:
        return (
            f"Another device is at USB port {self.port} now: it was {self.seen} and is "
            f"{self.now}. To use this device, run the command again."
        )


class DeviceUnusable(Refusal, frozen=True):
    """A device cannot be given away, or not even be worked with."""

    device: str
    reasons: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        text = f"{self.device} cannot be passed to VMs: {'; '.join(self.reasons)}."
        return " ".join((text, *self.remedies))


class DeviceHeld(Refusal, frozen=True, tag="DeviceInUse"):
    """What would have to be taken away is in use."""

    device: str
    holders: tuple[str, ...]
    processes: tuple[int, ...] = ()
    """Ids of those that are processes: once one has ended, this is no longer so."""
    ends: tuple[str, ...] = ()
    """What ends their uses, with the commands."""

    @property
    def words(self) -> str:
        users = "; ".join(self.holders)
        return f"{self.device} is in use: {users}. {'; '.join(self.ends) or 'End this use first.'}"


class HoldersUnknown(Refusal, frozen=True):
    """Something would have to be taken away, but who uses it cannot be seen."""

    obstacle: str

    @property
    def words(self) -> str:
        return (
            f"Laneway cannot read which processes use the devices, so nothing is changed: "
            f"{self.obstacle}. Run Laneway as root of the host, not of a container."
        )


class DriverReserved(Refusal, frozen=True):
    """A device is reserved for one driver, which is not vfio-pci."""

    device: str
    driver: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} is reserved for driver {self.driver} by a driver_override that Laneway "
            "did not set. To pass the device to VMs, remove it first: driverctl unset-override "
            f"{self.device}, or echo > /sys/bus/pci/devices/{self.device}/driver_override"
        )


class DeviceQuarantined(Refusal, frozen=True):
    """The device failed its reset, so it is not allocated."""

    device: str
    error: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} is in quarantine because its reset failed ({self.error}). Reboot the "
            f"node, or lift the quarantine with: laneway host quarantine --lift {self.device}"
        )


class ResetFailed(Refusal, frozen=True, tag="DeviceQuarantined"):
    """The device could not be reset after its last user; it is in quarantine now."""

    device: str
    error: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} could not be reset after its last user ({self.error}). It is in "
            "quarantine. Reboot the node, or lift the quarantine with: laneway host quarantine "
            f"--lift {self.device}"
        )


class VfioMissing(Refusal, frozen=True):
    """The kernel has no vfio-pci, built in or loadable."""

    kernel: str

    @property
    def words(self) -> str:
        return (
            f"The running kernel {self.kernel} has no vfio-pci, neither built in nor as a module. "
            "Install the package with the kernel's modules."
        )


class DriverMissing(Refusal, frozen=True):
    """The device's driver does not serve it, so nothing can be configured."""

    device: str
    driver: str
    needed: str

    @property
    def words(self) -> str:
        if self.driver == "vfio-pci":
            return (
                f"{self.device} is bound to vfio-pci, so it is reserved for VMs; this change "
                f"needs {self.needed}. Release it first: laneway host release {self.device}"
            )
        has = f"is on driver {self.driver}" if self.driver else "has no driver"
        return (
            f"{self.device} {has}; this change needs {self.needed}. Install or load that driver "
            "first."
        )


class ToolMissing(Refusal, frozen=True):
    """A program of the driver's is not installed."""

    program: str

    @property
    def words(self) -> str:
        return (
            f"{self.program} is not installed. Install NVIDIA's vGPU driver for hosts; the driver "
            "for data centres does not contain it."
        )
