"""Refusals are data: an enumerated reason with its facts, put into words in one place.

The same value becomes a condition, an event, an admission message, a line of the command line and
a tooltip. The reason is the condition's `reason`, so it never changes once released; the words may.
"""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, tag_field="reason"):
    """Why something that was asked for is not done. Subclasses name the reason."""

    @property
    def reason(self) -> str:
        """CamelCase word for machines, `ProfileExhausted`."""
        return type(self).__name__


class ProfileMissing(Refusal, frozen=True):
    """A vGPU is to be enabled, but nobody said with which profile."""

    offered: tuple[str, ...]


class ProfileUnknown(Refusal, frozen=True):
    """The driver does not list the profile for this GPU."""

    profile: str
    offered: tuple[str, ...]


class ProfileExhausted(Refusal, frozen=True):
    """The driver knows the profile but cannot create another vGPU of it now."""

    profile: str
    configured: tuple[tuple[str, int], ...]
    """What the GPU carries: profile and count, sorted by name."""
    offered: tuple[str, ...]
    of: int = 0
    """How many fit on the GPU when it carries nothing; 0: nobody knows."""


class FunctionMissing(Refusal, frozen=True):
    """The VF is not on the bus, although its GPU is wished to have VFs."""

    address: str


class GpuDisabled(Refusal, frozen=True):
    """A vGPU is to be enabled on a GPU that is not to have VFs."""

    gpu: str
    """Name of the SRIOVGPUDevice."""


class ConfiguredElsewhere(Refusal, frozen=True):
    """The function carries a vGPU that nobody asked Laneway for."""

    profile: str


class OtherProfileRunning(Refusal, frozen=True):
    """The function carries another vGPU than wished, and not because of this object."""

    profile: str
    running: str


class WrongDevice(Refusal, frozen=True):
    """The object's name and its spec speak of different devices, or of none."""

    name: str
    address: str
    node: str


class OtherCard(Refusal, frozen=True):
    """Another card than the one that the wish was made for is in its place."""

    device: str
    meant: str
    """UUID of the card."""
    found: str
    """UUID of the one that is there; empty while nobody knows it."""
    place: str
    """Where the card is now; empty where the node does not show it."""


class VfsElsewhere(Refusal, frozen=True):
    """The card has virtual functions that nobody asked Laneway for."""

    device: str
    count: int


class OtherVfCount(Refusal, frozen=True):
    """The card has another number of virtual functions than wished, not because of this object."""

    device: str
    asked: int
    count: int


class VgpusEnabled(Refusal, frozen=True):
    """vGPUs are wished on virtual functions that would have to go."""

    device: str
    names: tuple[str, ...]
    """Of the VGPUDevices."""


class VfsUndriven(Refusal, frozen=True):
    """The GPU has its virtual functions, but no driver has taken some of them."""

    device: str
    functions: tuple[str, ...]


class NoIommu(Refusal, frozen=True):
    """The device is in no IOMMU group, so virtual machines could use nothing of it."""

    device: str


class WriteFailed(Refusal, frozen=True):
    """The kernel or the driver refused a step; what was done before it has been undone."""

    step: str
    error: str
    left_over: tuple[str, ...] = ()
    """Steps that could not be undone."""


class DeviceMissing(Refusal, frozen=True):
    """There is no such device on this host."""

    device: str


class DeviceUnusable(Refusal, frozen=True):
    """A device cannot be given away, or not even be worked with."""

    device: str
    reasons: tuple[str, ...]
    remedies: tuple[str, ...] = ()


class DeviceHeld(Refusal, frozen=True):
    """Somebody uses what would have to be taken away."""

    device: str
    holders: tuple[str, ...]


class UsersUnknown(Refusal, frozen=True):
    """Something would have to be taken away, but who uses it cannot be seen."""

    obstacle: str


class DeviceQuarantined(Refusal, frozen=True):
    """The device failed its reset, so nobody gets it."""

    device: str
    error: str


class ResetFailed(Refusal, frozen=True):
    """The device could not be reset after its last user; it is in quarantine now."""

    device: str
    error: str


class VfioMissing(Refusal, frozen=True):
    """The kernel has no vfio-pci, built in or loadable."""

    kernel: str


class NoSriov(Refusal, frozen=True):
    """The function cannot have virtual functions."""

    device: str


class VfCountOutOfRange(Refusal, frozen=True):
    """More virtual functions than the device has, or less than none."""

    device: str
    count: int
    total: int


class VfsAllOrNone(Refusal, frozen=True):
    """A GPU's virtual functions come and go together only."""

    device: str
    count: int
    total: int


class DriverMissing(Refusal, frozen=True):
    """The device's driver does not serve it, so nothing can be configured."""

    device: str
    driver: str
    needed: str


class ToolMissing(Refusal, frozen=True):
    """A program of the driver's is not installed."""

    program: str


class GpuUnreadable(Refusal, frozen=True):
    """The driver's program does not tell about the GPU, so nothing can be planned."""

    device: str
    error: str


class NotAVgpuCard(Refusal, frozen=True):
    """The device is no NVIDIA GPU that can carry vGPUs."""

    device: str


class MigUnsupported(Refusal, frozen=True):
    """The card has no MIG mode."""

    device: str


class MixedSizeUnsupported(Refusal, frozen=True):
    """The card or its driver cannot carry vGPUs of different sizes at once."""

    device: str


class SizesMixed(Refusal, frozen=True):
    """vGPUs of several sizes are asked for where all must have one."""

    device: str
    profiles: tuple[str, ...]


class LayoutDoesNotFit(Refusal, frozen=True):
    """The vGPUs asked for do not fit on the card together."""

    device: str
    profile: str
    count: int
    possible: int


class CountTooSmall(Refusal, frozen=True):
    """None, or less than none, of something is asked for."""

    profile: str
    count: int


class TooFewFunctions(Refusal, frozen=True):
    """More vGPUs are asked for than the card has virtual functions to carry them."""

    device: str
    count: int
    functions: int


class ModesExclusive(Refusal, frozen=True):
    """Time-sliced and MIG-backed vGPUs are asked for on one card."""

    device: str
    sliced: tuple[str, ...]
    mig_backed: tuple[str, ...]


class ModeUnknown(Refusal, frozen=True):
    """A GPU is asked to be in a mode that there is not."""

    mode: str


class ModeExcludes(Refusal, frozen=True):
    """A mode and vGPUs are asked for that cannot be on one card."""

    mode: str
    profiles: tuple[str, ...]


class ModeWithoutVfs(Refusal, frozen=True):
    """A GPU is to have virtual functions and to be in a mode that has none."""

    device: str
    mode: str


class ModeElsewhere(Refusal, frozen=True):
    """The GPU is in another mode than wished, and not because of this object."""

    device: str
    wanted: str
    found: str


class MigWished(Refusal, frozen=True):
    """A MigConfiguration asks for GPU instances on a card that is to leave MIG mode."""

    device: str


class NoGpuInstances(Refusal, frozen=True):
    """The GPU is in MIG mode and has no GPU instance that a vGPU could be in."""

    device: str


class MigOnly(Refusal, frozen=True):
    """The card shares itself through MIG only, and MIG mode is off."""

    device: str


class NoProfiles(Refusal, frozen=True):
    """The driver has no vGPU profile for this model of card."""

    device: str
    driver: str
    """Its release."""


class ClaimedWhole(Refusal, frozen=True):
    """The GPU is claimed as a whole device, so it is not shared."""

    device: str
    claim: str
    user: str


class OtherLayout(Refusal, frozen=True):
    """Another, older layout means the same GPU."""

    gpu: str
    """Name of the SRIOVGPUDevice."""
    layout: str


class ParametersMalformed(Refusal, frozen=True):
    """Parameters of vGPUs that the driver would not understand."""

    parameters: str


class InstancesDoNotFit(Refusal, frozen=True):
    """The GPU instances asked for do not fit on the card together."""

    device: str
    asked: tuple[str, ...]
    obstacle: str


class GpuPreparing(Refusal, frozen=True):
    """The GPU itself is not yet as it is wished, so nothing is made on it."""

    device: str
    what: str
    """What is still to be done, in words."""


class InstancesElsewhere(Refusal, frozen=True):
    """The card has GPU instances that nobody asked Laneway for."""

    device: str
    instances: tuple[str, ...]


class OtherInstances(Refusal, frozen=True):
    """GPU instances that nobody asked Laneway for stand beside, or in the way of, those wished."""

    device: str
    instances: tuple[str, ...]
    lacking: tuple[str, ...]
    """What there is no room for because of them."""


class MigModeOff(Refusal, frozen=True):
    """GPU instances are asked for on a card that is not in MIG mode."""

    device: str
    gpu: str
    """Name of the SRIOVGPUDevice."""


class InstanceCountNegative(Refusal, frozen=True):
    """Less than none of a GPU instance is asked for."""

    profile: str
    count: int


class ProfileRepeated(Refusal, frozen=True):
    """One profile of GPU instances is asked for in two places."""

    profile: str


class DeviceReplaced(Refusal, frozen=True):
    """At the USB port is not the device that was there when this was asked for."""

    port: str
    seen: str
    now: str


class HostBusy(Refusal, frozen=True):
    """Another Laneway process changes this host now."""

    holder: str


class ChangedMeanwhile(Refusal, frozen=True):
    """What an interrupted plan was about has been changed by somebody else since."""

    step: str
