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


class FunctionMissing(Refusal, frozen=True):
    """The VF is not on the bus, although its GPU is wished to have VFs."""

    address: str


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


class NotYetSupported(Refusal, frozen=True):
    """The wish is valid, but this release does not carry it out."""

    wish: str
    state: str


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
    """A device cannot be given to a virtual machine."""

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


class ParametersMalformed(Refusal, frozen=True):
    """Parameters of vGPUs that the driver would not understand."""

    parameters: str


class InstancesDoNotFit(Refusal, frozen=True):
    """The GPU instances asked for do not fit on the card together."""

    device: str
    asked: tuple[str, ...]
    obstacle: str


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


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def explain(refusal: Refusal) -> str:  # noqa: C901, PLR0912 - one case a reason
    """The refusal as one or two sentences that a person can act on."""
    match refusal:
        case ProfileMissing(offered):
            return (
                "spec.vGPUTypeName is empty: name the profile to configure. "
                f"Possible here now: {_names(offered)}."
            )
        case ProfileUnknown(profile, offered):
            return (
                f"The driver offers no profile named {profile!r} on this GPU. "
                f"Possible here now: {_names(offered)}."
            )
        case ProfileExhausted(profile, configured, offered):
            carried = ", ".join(f"{count} x {name}" for name, count in configured) or "nothing"
            return (
                f"No {profile} can be created now: the GPU carries {carried}, and the driver "
                f"leaves no room for another. Possible here now: {_names(offered)}."
            )
        case FunctionMissing(address):
            return (
                f"{address} is not on the PCI bus: the GPU's virtual functions do not exist. "
                "They come back when SR-IOV is enabled on the GPU again."
            )
        case ConfiguredElsewhere(profile):
            return (
                f"The driver has a {profile or 'vGPU of an unknown profile'} here that was not "
                "configured through this object. It is left alone. To take it over, set "
                "spec.enabled to true with this vGPUTypeName; to remove it, disable it afterwards."
            )
        case OtherProfileRunning(profile, running):
            return (
                f"The driver has a {running or 'vGPU of an unknown profile'} here that was not "
                f"configured through this object, so it is not replaced by {profile}. To keep it, "
                "set spec.vGPUTypeName to its profile; to remove it, set spec.enabled to false."
            )
        case WrongDevice(name, address, node):
            return (
                f"spec.address {address!r} on node {node!r} is not the device that the name "
                f"{name} stands for, so nothing is done. Delete this object; every device of a "
                "node has one of its own, which comes back by itself."
            )
        case NotYetSupported(wish, state):
            return f"This release of Laneway cannot {wish} yet. {state}"
        case WriteFailed(step, error, left_over):
            text = f"Could not {step}: {error}."
            if left_over:
                text += f" These steps could not be undone: {'; '.join(left_over)}."
            return text
        case DeviceMissing(device):
            return f"There is no device {device} on this host. laneway devices lists what there is."
        case DeviceUnusable(device, reasons, remedies):
            text = f"{device} cannot be given to a virtual machine: {'; '.join(reasons)}."
            return " ".join((text, *remedies))
        case DeviceHeld(device, holders):
            return f"{device} is in use: {'; '.join(holders)}. End that use first."
        case UsersUnknown(obstacle):
            return (
                f"Nothing is taken away here, because who uses it cannot be seen: {obstacle}. Run "
                "Laneway as root of the host, not of a container."
            )
        case DeviceQuarantined(device, error):
            return (
                f"{device} is in quarantine because its reset failed ({error}). Reboot the node, "
                f"or lift the quarantine with: laneway host quarantine --lift {device}"
            )
        case ResetFailed(device, error):
            return (
                f"{device} could not be reset after its last user ({error}). It is in quarantine: "
                "nobody gets it until the node is rebooted or the quarantine is lifted."
            )
        case VfioMissing(kernel):
            return (
                f"The running kernel {kernel} has no vfio-pci, neither built in nor as a module. "
                "Install the package with the kernel's modules."
            )
        case NoSriov(device):
            return (
                f"{device} cannot have virtual functions. Where the card should, switch SR-IOV on "
                "in the firmware of the machine and of the card."
            )
        case VfCountOutOfRange(device, count, total):
            return f"{device} can have 0 to {total} virtual functions, not {count}."
        case VfsAllOrNone(device, count, total):
            return (
                f"The virtual functions of GPU {device} come and go together: ask for {total} or "
                f"for 0, not for {count}."
            )
        case DriverMissing(device, "vfio-pci", needed):
            return (
                f"{device} is on vfio-pci, so it belongs to virtual machines; this needs {needed}. "
                f"Give it back first, with: laneway host release {device}"
            )
        case DriverMissing(device, driver, needed):
            has = f"is on driver {driver}" if driver else "has no driver"
            return f"{device} {has}; this needs {needed}. Install or load that driver first."
        case ToolMissing(program):
            return (
                f"{program} is not installed. It comes with NVIDIA's vGPU driver for hosts (not "
                "with the one for data centres)."
            )
        case GpuUnreadable(device, error):
            return f"nvidia-smi tells nothing about {device}: {error}."
        case NotAVgpuCard(device):
            return f"{device} is no NVIDIA GPU that can carry vGPUs."
        case MigUnsupported(device):
            return f"{device} has no MIG mode."
        case MixedSizeUnsupported(device):
            return (
                f"{device} cannot carry vGPUs of different sizes at once: card or driver lack the "
                "mode. Ask for one size only."
            )
        case SizesMixed(device, profiles):
            return (
                f"{_names(profiles)} differ in size, and {device} carries one size at a time. Ask "
                "for one size, or for mixed sizes (--mixed-size)."
            )
        case LayoutDoesNotFit(device, profile, count, possible):
            return (
                f"{count} x {profile} do not fit on {device} beside the rest: {possible} of them "
                "would."
            )
        case CountTooSmall(profile, count):
            return f"{count} x {profile} is no number of vGPUs: ask for one at least, or leave it."
        case TooFewFunctions(device, count, functions):
            return (
                f"{count} vGPUs need {count} virtual functions of {device}, and {functions} of "
                "them can carry one."
            )
        case ModesExclusive(device, sliced, mig_backed):
            return (
                f"{_names(sliced)} share all of {device} by time, {_names(mig_backed)} need MIG "
                "mode, and a card is in one mode only. Ask for one kind."
            )
        case ParametersMalformed(parameters):
            return (
                f"{parameters!r} are no vGPU parameters: write name=value, several of them "
                "separated by commas, such as frame_rate_limiter=0."
            )
        case InstancesDoNotFit(device, asked, obstacle):
            return f"The GPU instances {_names(asked)} do not fit on {device}: {obstacle}."
        case DeviceReplaced(port, seen, now):
            return (
                f"The device at USB port {port} has been plugged in anew since: it was {seen} and "
                f"is {now}. Look whether it is the one you mean, and ask again."
            )
        case HostBusy(holder):
            return f"This host is being changed by {holder}. Wait until that is done."
        case ChangedMeanwhile(step):
            return (
                f"An interrupted plan was to {step}, but somebody else has changed the device "
                "since. It is left as it is; plan anew."
            )
        case _:
            raise TypeError(f"no words for {refusal!r}")
