"""Steps and refusals in words: the one place where either becomes text that people read.

The same words stand in conditions, events, the audit record, progress and the command line. They
may change with any release; what a program goes by is the reason's name and the step itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.gpu_modes import Mode
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    LoadModule,
    OverrideDriver,
    Probe,
    RemoveMdev,
    ResetFunction,
    SetAutoprobe,
    SetConsole,
    SetFramebuffer,
    SetMigMode,
    SetMixedSize,
    SetNodeOwner,
    SetVfCount,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
)
from laneway.core.refusals import (
    ChangedMeanwhile,
    ClaimedWhole,
    ConfiguredElsewhere,
    CountTooSmall,
    DeviceHeld,
    DeviceMissing,
    DeviceQuarantined,
    DeviceReplaced,
    DeviceUnusable,
    DriverMissing,
    FunctionMissing,
    GpuDisabled,
    GpuPreparing,
    GpuUnreadable,
    HostBusy,
    InstanceCountNegative,
    InstancesDoNotFit,
    InstancesElsewhere,
    LayoutDoesNotFit,
    MigModeOff,
    MigOnly,
    MigUnsupported,
    MigWished,
    MixedSizeUnsupported,
    ModeElsewhere,
    ModeExcludes,
    ModesExclusive,
    ModeUnknown,
    ModeWithoutVfs,
    NoGpuInstances,
    NoIommu,
    NoProfiles,
    NoSriov,
    NotAVgpuCard,
    OtherCard,
    OtherInstances,
    OtherLayout,
    OtherProfileRunning,
    OtherVfCount,
    ParametersMalformed,
    ProfileExhausted,
    ProfileMissing,
    ProfileRepeated,
    ProfileUnknown,
    Refusal,
    ResetFailed,
    SizesMixed,
    TooFewFunctions,
    ToolMissing,
    UsersUnknown,
    VfCountOutOfRange,
    VfioMissing,
    VfsAllOrNone,
    VfsElsewhere,
    VfsUndriven,
    VgpusEnabled,
    WriteFailed,
    WrongDevice,
)

_LONGEST_QUOTE = 64


def describe(step: Step) -> str:  # noqa: C901, PLR0912 - one line a step
    """The step in words, as the rest of a sentence that starts with `Could not` or `will`."""
    match step:
        case LoadModule(module):
            return f"load the kernel module {module}"
        case Unbind(function, driver):
            return f"take {function} from driver {driver}"
        case OverrideDriver(function, "", before):
            return f"let {function} have any driver again, not only {before}"
        case OverrideDriver(function, driver):
            return f"reserve {function} for driver {driver}"
        case Probe(function, ""):
            return f"give {function} to the driver that wants it"
        case Probe(function, driver):
            return f"give {function} to driver {driver}"
        case ResetFunction(function):
            return f"reset {function}"
        case SetConsole(number, name, attached):
            done = (
                "attach the virtual consoles to" if attached else "detach the virtual consoles from"
            )
            return f"{done} {name} (vtcon{number})"
        case SetFramebuffer(device, driver, bound):
            done = "give the firmware framebuffer" if bound else "take the firmware framebuffer"
            return f"{done} {device} {'to' if bound else 'from'} driver {driver}"
        case SetAutoprobe(function, enabled):
            how = "by themselves" if enabled else "only on demand"
            return f"have new virtual functions of {function} find drivers {how}"
        case SetVfCount(function, 0, before):
            return f"remove the {before} virtual functions of {function}"
        case SetVfCount(function, count):
            return f"create {count} virtual functions of {function}"
        case SwitchGpuVfs(function, enabled, count):
            done = "enable" if enabled else "disable"
            return f"{done} the {count} virtual functions of GPU {function} with sriov-manage"
        case SetMigMode(function, enabled):
            return f"switch {'on' if enabled else 'off'} MIG mode of {function}"
        case SetMixedSize(function, enabled, start):
            where = "" if start is None else f", GPU instance at {start}"
            return f"{'allow' if enabled else 'forbid'} vGPUs of mixed sizes on {function}{where}"
        case CreateGpuInstance(function, profile, _, start):
            return f"create GPU instance {profile} at {start} on {function}"
        case DestroyGpuInstance(function, profile, _, start):
            return f"destroy GPU instance {profile} at {start} on {function}"
        case CreateComputeInstance(function, start):
            return f"create the compute instance of the GPU instance at {start} on {function}"
        case DestroyComputeInstance(function, start):
            return f"destroy the compute instances of the GPU instance at {start} on {function}"
        case CreateMdev(function, _, profile, uuid):
            return f"create {profile} on {function} with UUID {uuid}"
        case RemoveMdev(function, _, profile, uuid):
            return f"remove {profile} with UUID {uuid} from {function}"
        case SetVgpuType(function, "0", _, profile):
            return f"remove {profile} from {function}"
        case SetVgpuType(function, "", _, profile):
            return f"configure {profile} on {function}"
        case SetVgpuType(function, type_id, _, profile):
            return f"configure {profile} (type {type_id}) on {function}"
        case SetVgpuParameters(function, _, parameters):
            return f"set the vGPU parameters of {function} to {parameters or 'the defaults'}"
        case SetNodeOwner(port, bus, number, uid, gid):
            node = f"/dev/bus/usb/{bus:03d}/{number:03d}"
            return f"give {node} (USB port {port}) to user {uid}, group {gid}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def quoted(text: str) -> str:
    """What somebody wrote, however odd and long, as a part of a line."""
    cut = ascii(text[:_LONGEST_QUOTE])
    return f"{cut[:-1]}…{cut[-1]}" if len(text) > _LONGEST_QUOTE else cut


def counted(vgpus: Iterable[tuple[str, int]]) -> str:
    """Profiles with their counts."""
    return ", ".join(f"{count} x {name or 'an unknown profile'}" for name, count in vgpus) or (
        "nothing"
    )


def explain(refusal: Refusal) -> str:  # noqa: C901, PLR0912, PLR0915 - one case a reason
    """The refusal as one or two sentences that a person can act on."""
    match refusal:
        case ProfileMissing(offered):
            return (
                "spec.vGPUTypeName is empty: name the profile to configure. "
                f"Possible here now: {_names(offered)}."
            )
        case ProfileUnknown(profile, offered):
            return (
                f"The driver offers no profile named {quoted(profile)} on this GPU. "
                f"Possible here now: {_names(offered)}."
            )
        case ProfileExhausted(profile, configured, offered, of):
            left = f"0 of {of} left" if of else "none left"
            return (
                f"{profile}: {left}: the GPU carries {counted(configured)}. "
                f"Possible here now: {_names(offered)}."
            )
        case FunctionMissing(address):
            return (
                f"{address} is not on the PCI bus: the GPU's virtual functions do not exist. "
                "They come back when SR-IOV is enabled on the GPU again."
            )
        case GpuDisabled(gpu):
            return (
                "The GPU has no virtual functions and is not meant to. Enable the GPU first: set "
                f"spec.enabled of SRIOVGPUDevice {gpu} to true."
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
                f"configured through this object, so {quoted(profile)} does not replace it. "
                "To keep it, set spec.vGPUTypeName to its profile; to remove it, set spec.enabled "
                "to false."
            )
        case WrongDevice(name, address, node):
            return (
                f"spec.address {quoted(address)} on node {quoted(node)} is not the device that the "
                f"name {name} stands for, so nothing is done. Delete this object; every device of "
                "a node has one of its own, which comes back by itself."
            )
        case OtherCard(device, meant, "", _):
            return (
                f"What is wished here was wished of card {meant}, and the driver does not tell "
                f"yet whether that is the one at {device}. It goes on by itself once it does."
            )
        case OtherCard(device, meant, found, ""):
            return (
                f"What is wished here was wished of card {meant}, which this node does not show; "
                f"at {device} is {found}. To have it done on this card, change the spec of the "
                "SRIOVGPUDevice, for instance by naming its mode (SameSize); to give it up, set "
                "spec.enabled to false there."
            )
        case OtherCard(device, meant, found, place):
            return (
                f"What is wished here was wished of card {meant}, which is at {place} now; at "
                f"{device} is {found}. It follows that card by itself once every GPU of the node "
                f"tells its UUID and nothing else is wished at {place}."
            )
        case VfsElsewhere(device, count):
            return (
                f"{device} has {count} virtual functions that were not made through this object. "
                "They are left alone. To take them over, ask for them here; to remove them, ask "
                "for none afterwards."
            )
        case OtherVfCount(device, asked, count):
            return (
                f"{device} has {count} virtual functions that were not made through this object, "
                f"so they do not become {asked}. To keep them, ask for {count}; to have "
                f"{asked}, ask for {asked} after that."
            )
        case VfsUndriven(device, functions):
            return (
                f"{device} has its virtual functions, but the driver has not taken "
                f"{_names(functions)}, so they can carry no vGPU. Its errors are in the kernel "
                "log. Disable the GPU and enable it again."
            )
        case VgpusEnabled(device, names):
            return (
                f"vGPUs of {device} are enabled, and what is asked of the GPU would take them "
                f"away: set spec.enabled to false first on VGPUDevice {_names(names)}."
            )
        case NoIommu(device):
            return (
                f"The IOMMU is off: {device} is in no IOMMU group, so no virtual machine could "
                "use a part of it. Switch on VT-d, AMD-Vi or the SMMU in the firmware, on Intel "
                "also intel_iommu=on on the kernel command line, and reboot the node."
            )
        case WriteFailed(step, error, left_over):
            text = f"Could not {step}: {error}."
            if left_over:
                text += f" These steps could not be undone: {'; '.join(left_over)}."
            return text
        case DeviceMissing(device):
            return f"There is no device {device} on this host. laneway devices lists what there is."
        case DeviceUnusable(device, reasons, remedies):
            text = f"{device} cannot be given away: {'; '.join(reasons)}."
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
            return f"The driver tells nothing about {device}: {error}."
        case NotAVgpuCard(device):
            return (
                f"{device} is no NVIDIA GPU that can carry vGPUs. laneway devices shows which can."
            )
        case MigUnsupported(device):
            return f"{device} has no MIG mode. Ask for a mode and profiles that need none."
        case MixedSizeUnsupported(device):
            return (
                f"{device} cannot carry vGPUs of different sizes at once: card or driver lack the "
                "mode. Ask for one size only."
            )
        case SizesMixed(device, profiles):
            return (
                f"{_names(profiles)} differ in size, and {device} carries one size at a time. Ask "
                "for one size, or for mixed sizes (mode MixedSize, --mixed-size)."
            )
        case LayoutDoesNotFit(device, profile, count, possible):
            return (
                f"{count} x {profile} do not fit on {device} beside the rest: {possible} of them "
                "would. Ask for that many, or for fewer of the others."
            )
        case CountTooSmall(profile, count):
            return f"{count} x {profile} is no number of vGPUs: ask for one at least, or leave it."
        case TooFewFunctions(device, count, functions):
            return (
                f"{count} vGPUs need {count} virtual functions of {device}, and {functions} of "
                "them can carry one. Ask for fewer."
            )
        case ModesExclusive(device, sliced, mig_backed):
            return (
                f"{_names(sliced)} share all of {device} by time, {_names(mig_backed)} need MIG "
                "mode, and a card is in one mode only. Ask for one kind."
            )
        case ModeUnknown(mode):
            return f"{mode!r} is no mode of a GPU: use {', '.join(Mode)}, or leave it empty."
        case ModeExcludes(mode, profiles):
            return (
                f"In mode {mode} a GPU carries no {_names(profiles)}. Ask for another mode, leave "
                "it empty to have what the profiles need, or ask for other profiles."
            )
        case ModeWithoutVfs(device, mode):
            return (
                f"Mode {mode} has no virtual functions, and spec.enabled asks for them: {device} "
                "is left as it is. Set spec.enabled to false, or choose SameSize, MixedSize or "
                "MIGBacked."
            )
        case ModeElsewhere(device, wanted, found):
            return (
                f"{device} is in mode {found}, which it was not given through this object, so it "
                f"does not change to {wanted}. To keep it, ask for {found}; to have {wanted}, ask "
                f"for {wanted} after that."
            )
        case MigWished(device):
            return (
                f"A MigConfiguration asks for GPU instances on {device}, so it stays in MIG mode. "
                "Set spec.enabled of that MigConfiguration to false first."
            )
        case NoGpuInstances(device):
            return (
                f"{device} is in MIG mode and has no GPU instance, so there is nothing that a vGPU "
                "could be in. Ask for GPU instances in the MigConfiguration of the same name, and "
                "set its spec.enabled to true."
            )
        case MigOnly(device):
            return (
                f"{device} offers no vGPU outside MIG mode, and MIG mode is off. Set spec.mode to "
                "MIGBacked."
            )
        case NoProfiles(device, driver):
            release = f" {driver}" if driver else ""
            return (
                f"NVIDIA's driver{release} has no vGPU profile for this model of card: {device} "
                "has its virtual functions, and not one of them offers any. Install a release of "
                "the vGPU driver for hosts that supports the card; the driver for data centres has "
                "no profiles at all."
            )
        case ClaimedWhole(device, claim, user):
            return (
                f"{device} is claimed as a whole by PCIDeviceClaim {claim} of user "
                f"{user or 'unknown'}, so it is not shared. It goes on here once that claim is "
                "deleted."
            )
        case OtherLayout(gpu, layout):
            return (
                f"VGPULayout {layout} means {gpu} too and is older, so it has it. Select the GPU "
                "with one of them only."
            )
        case ParametersMalformed(parameters):
            return (
                f"{parameters!r} are no vGPU parameters: write name=value, several of them "
                "separated by commas, such as frame_rate_limiter=0."
            )
        case InstancesDoNotFit(device, asked, obstacle):
            return (
                f"The GPU instances {_names(asked)} do not fit on {device}: {obstacle}. Ask for "
                "fewer or smaller ones."
            )
        case GpuPreparing(device, what):
            first = what.rstrip(".")
            return f"{device} is not ready for it yet: {first}. This goes on by itself afterwards."
        case InstancesElsewhere(device, instances):
            return (
                f"{device} has GPU instances that were not asked for through this object: "
                f"{_names(instances)}. They are left alone. To take them over, request them here "
                "and set spec.enabled to true; to have them destroyed, set it to false afterwards."
            )
        case OtherInstances(device, instances, lacking):
            text = (
                f"{device} has GPU instances that this object does not ask for: "
                f"{_names(instances)}. They are left alone. To keep them, request them here; to "
                "have them destroyed, request them and afterwards no longer."
            )
            if lacking:
                text += f" Beside them there is no room for {_names(lacking)}."
            return text
        case MigModeOff(device, gpu):
            return (
                f"MIG mode of {device} is off, and is not switched on unasked: set spec.mode of "
                f"SRIOVGPUDevice {gpu} to MIG for GPU instances alone, or to MIGBacked, with "
                "spec.enabled true, for vGPUs in them."
            )
        case InstanceCountNegative(profile, count):
            return f"{count} x {profile!r} is no number of GPU instances: request 0 or more."
        case ProfileRepeated(profile):
            return f"spec.profileSpec names {profile} more than once. Request it in one place."
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
