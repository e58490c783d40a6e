"""Why a device is not given away, or not worked with."""

from __future__ import annotations

from laneway.core.phrases import quoted
from laneway.core.refusals.base import Refusal


class DeviceMissing(Refusal, frozen=True):
    """There is no such device on this host."""

    device: str

    @property
    def words(self) -> str:
        return (
            f"There is no device {self.device} on this host. laneway devices lists what there is."
        )


class WrongDevice(Refusal, frozen=True):
    """The object's name and its spec speak of different devices, or of none."""

    name: str
    address: str
    node: str

    @property
    def words(self) -> str:
        return (
            f"spec.address {quoted(self.address)} on node {quoted(self.node)} is not the device "
            f"that the name {self.name} stands for, so nothing is done. Delete this object; every "
            "device of a node has one of its own, which comes back by itself."
        )


class OtherCard(Refusal, frozen=True):
    """Another card than the one that the wish was made for is in its place."""

    device: str
    meant: str
    """UUID of the card."""
    found: str
    """UUID of the one that is there; empty while nobody knows it."""
    place: str
    """Where the card is now; empty where the node does not show it."""

    @property
    def words(self) -> str:
        if not self.found:
            return (
                f"What is wished here was wished of card {self.meant}, and the driver does not "
                f"tell yet whether that is the one at {self.device}. It goes on by itself once it "
                "does."
            )
        if not self.place:
            return (
                f"What is wished here was wished of card {self.meant}, which this node does not "
                f"show; at {self.device} is {self.found}. To have it done on this card, change the "
                "spec of the SRIOVGPUDevice, for instance by naming its mode (SameSize); to give "
                "it up, set spec.enabled to false there."
            )
        return (
            f"What is wished here was wished of card {self.meant}, which is at {self.place} now; "
            f"at {self.device} is {self.found}. It follows that card by itself once every GPU of "
            f"the node tells its UUID and nothing else is wished at {self.place}."
        )


class DeviceReplaced(Refusal, frozen=True):
    """At the USB port is not the device that was there when this was asked for."""

    port: str
    seen: str
    now: str

    @property
    def words(self) -> str:
        return (
            f"The device at USB port {self.port} has been plugged in anew since: it was "
            f"{self.seen} and is {self.now}. Look whether it is the one you mean, and ask again."
        )


class DeviceUnusable(Refusal, frozen=True):
    """A device cannot be given away, or not even be worked with."""

    device: str
    reasons: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        text = f"{self.device} cannot be given away: {'; '.join(self.reasons)}."
        return " ".join((text, *self.remedies))


class DeviceHeld(Refusal, frozen=True):
    """Somebody uses what would have to be taken away."""

    device: str
    holders: tuple[str, ...]
    processes: tuple[int, ...] = ()
    """Ids of those that are processes: once one has ended, this is no longer so."""

    @property
    def words(self) -> str:
        return f"{self.device} is in use: {'; '.join(self.holders)}. End that use first."


class UsersUnknown(Refusal, frozen=True):
    """Something would have to be taken away, but who uses it cannot be seen."""

    obstacle: str

    @property
    def words(self) -> str:
        return (
            f"Nothing is taken away here, because who uses it cannot be seen: {self.obstacle}. Run "
            "Laneway as root of the host, not of a container."
        )


class DriverReserved(Refusal, frozen=True):
    """Somebody has reserved a device for one driver, which is not vfio-pci."""

    device: str
    driver: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} is reserved for driver {self.driver} by driver_override, and not by "
            "Laneway. To give the device away, take that back first: driverctl unset-override "
            f"{self.device}, or echo > /sys/bus/pci/devices/{self.device}/driver_override"
        )


class DeviceQuarantined(Refusal, frozen=True):
    """The device failed its reset, so nobody gets it."""

    device: str
    error: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} is in quarantine because its reset failed ({self.error}). Reboot the "
            f"node, or lift the quarantine with: laneway host quarantine --lift {self.device}"
        )


class ResetFailed(Refusal, frozen=True):
    """The device could not be reset after its last user; it is in quarantine now."""

    device: str
    error: str

    @property
    def words(self) -> str:
        return (
            f"{self.device} could not be reset after its last user ({self.error}). It is in "
            "quarantine: nobody gets it until the node is rebooted or the quarantine is lifted."
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
                f"{self.device} is on vfio-pci, so it belongs to virtual machines; this needs "
                f"{self.needed}. Give it back first, with: laneway host release {self.device}"
            )
        has = f"is on driver {self.driver}" if self.driver else "has no driver"
        return f"{self.device} {has}; this needs {self.needed}. Install or load that driver first."


class ToolMissing(Refusal, frozen=True):
    """A program of the driver's is not installed."""

    program: str

    @property
    def words(self) -> str:
        return (
            f"{self.program} is not installed. It comes with NVIDIA's vGPU driver for hosts (not "
            "with the one for data centres)."
        )
