"""Plans: the typed steps that take hardware from what is to what is desired.

A step is one write to an attribute, or one command; it says what is true before and what must be
true afterwards. It holds no code that touches a host, so the same plan serves execution, journal,
dry run, preview and tests. In what order steps must come is the business of those who make plans.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from laneway.core.pci import PciAddress


class LoadModule(msgspec.Struct, frozen=True, tag=True):
    """Load a kernel module that is not built in."""

    module: str


class Unbind(msgspec.Struct, frozen=True, tag=True):
    """Take a function from its driver."""

    function: PciAddress
    driver: str


class OverrideDriver(msgspec.Struct, frozen=True, tag=True):
    """Write `driver_override`: the only driver that may have the function. Empty: any."""

    function: PciAddress
    driver: str
    before: str


class Probe(msgspec.Struct, frozen=True, tag=True):
    """Have the kernel look for a driver for a function that has none."""

    function: PciAddress
    driver: str
    """Which must have it afterwards. Empty: whichever wants it, or none."""


class ResetFunction(msgspec.Struct, frozen=True, tag=True):
    """Reset a function that no driver has, so that nothing of its last user is left in it."""

    function: PciAddress


class SetConsole(msgspec.Struct, frozen=True, tag=True):
    """Attach the virtual consoles to a console driver (`vtconN`), or detach them."""

    number: int
    name: str
    """As the kernel calls it, `(M) frame buffer device`."""
    attached: bool


class SetFramebuffer(msgspec.Struct, frozen=True, tag=True):
    """Bind or unbind the platform device through which firmware's framebuffer is shown."""

    device: str
    """`efi-framebuffer.0`"""
    driver: str
    bound: bool


class SetAutoprobe(msgspec.Struct, frozen=True, tag=True):
    """Whether new VFs of a function are given to drivers by themselves."""

    function: PciAddress
    enabled: bool


class SetVfCount(msgspec.Struct, frozen=True, tag=True):
    """Write `sriov_numvfs`. The kernel goes from 0 to N and from N to 0 only."""

    function: PciAddress
    count: int
    before: int
    used: bool = False
    """Whether the node may be using the card itself meanwhile: it had these VFs before."""


class SwitchGpuVfs(msgspec.Struct, frozen=True, tag=True):
    """Enable or disable all VFs of an NVIDIA GPU through `sriov-manage`."""

    function: PciAddress
    enabled: bool
    count: int
    """How many VFs there are while they are enabled."""


class SetMigMode(msgspec.Struct, frozen=True, tag=True):
    """Switch a GPU's MIG mode."""

    function: PciAddress
    enabled: bool


class SetMixedSize(msgspec.Struct, frozen=True, tag=True):
    """Let a GPU, or one GPU instance of it, carry vGPUs of different sizes at once."""

    function: PciAddress
    enabled: bool
    instance_start: int | None = None
    """Placement of the GPU instance; None: the whole card."""


class CreateGpuInstance(msgspec.Struct, frozen=True, tag=True):
    """Create a GPU instance at a placement, which names it as long as it exists."""

    function: PciAddress
    profile: str
    """`1g.5gb`"""
    profile_id: int
    start: int


class DestroyGpuInstance(msgspec.Struct, frozen=True, tag=True):
    """Destroy the GPU instance at a placement; the profile is kept to create it again."""

    function: PciAddress
    profile: str
    profile_id: int
    start: int


class CreateComputeInstance(msgspec.Struct, frozen=True, tag=True):
    """Create the compute instance that takes all of a GPU instance."""

    function: PciAddress
    start: int
    """Placement of the GPU instance."""


class DestroyComputeInstance(msgspec.Struct, frozen=True, tag=True):
    """Destroy every compute instance of a GPU instance."""

    function: PciAddress
    start: int


class CreateMdev(msgspec.Struct, frozen=True, tag=True):
    """Create a mediated device of a type on a function."""

    function: PciAddress
    type_id: str
    profile: str
    uuid: str


class RemoveMdev(msgspec.Struct, frozen=True, tag=True):
    """Remove a mediated device; the type is kept so that it can be created again."""

    function: PciAddress
    type_id: str
    profile: str
    uuid: str


class SetVgpuType(msgspec.Struct, frozen=True, tag=True):
    """Write `current_vgpu_type` (vendor VFIO); type `0` is no vGPU."""

    function: PciAddress
    type_id: str
    """Empty when it is known only once the steps before are done: a carrying card does not list
    types of another size."""
    before: str
    profile: str
    """Of the vGPU that comes or, when `type_id` is `0`, goes."""


class SetVgpuParameters(msgspec.Struct, frozen=True, tag=True):
    """Write the parameters of a vGPU that exists, `frame_rate_limiter=0`."""

    function: PciAddress
    uuid: str
    """Of the mediated device; empty on vendor VFIO."""
    parameters: str
    before: str


class SetNodeOwner(msgspec.Struct, frozen=True, tag=True):
    """Give the device node of a USB device to a user and group."""

    port: str
    bus: int
    number: int
    uid: int
    gid: int
    before_uid: int
    before_gid: int


class SetBootArguments(msgspec.Struct, frozen=True, tag=True):
    """Write a file that kernel command lines come from, and make the boot loader's own again.

    It changes what boots next, and nothing that runs.
    """

    loader: str
    """`core.preparation.facts.LoaderName`"""
    path: str
    before: str | None
    """Content of the file; None: there is none."""
    after: str | None
    arguments: tuple[str, ...] = ()
    """Words that every kernel is started with afterwards because of the file, and that are
    Laneway's."""
    arguments_before: tuple[str, ...] = ()


class WriteConfiguration(msgspec.Struct, frozen=True, tag=True):
    """Write a file of Laneway's own that the node's system reads when it boots."""

    path: str
    before: str | None
    """Its content; None: there is none."""
    after: str | None


PciStep = Unbind | OverrideDriver | Probe | ResetFunction
ConsoleStep = SetConsole | SetFramebuffer
SriovStep = SetAutoprobe | SetVfCount | SwitchGpuVfs
MigStep = (
    SetMigMode
    | SetMixedSize
    | CreateGpuInstance
    | DestroyGpuInstance
    | CreateComputeInstance
    | DestroyComputeInstance
)
VgpuStep = CreateMdev | RemoveMdev | SetVgpuType | SetVgpuParameters
BootStep = SetBootArguments | WriteConfiguration
"""Files, which do not forget at a reboot."""
DeviceStep = LoadModule | PciStep | ConsoleStep | SriovStep | SetNodeOwner
Step = DeviceStep | MigStep | VgpuStep | BootStep


class Plan(msgspec.Struct, frozen=True):
    """Steps in the order in which they must happen."""

    steps: tuple[Step, ...]
    then: tuple[str, ...] = ()
    """In words, what a further plan must do once this one is done: what it takes is known only
    then. Empty when the desired state is reached with this plan."""


class Satisfied(msgspec.Struct, frozen=True):
    """Nothing to do: hardware is as desired."""


def undo(step: Step) -> Step | None:  # noqa: C901, PLR0912 - one line a step
    """The step that takes a done step back; None where nothing needs to be taken back."""
    match step:
        case LoadModule() | ResetFunction():
            return None
        case Unbind(function, driver):
            return Probe(function, driver)
        case Probe(function, driver):
            return Unbind(function, driver) if driver else None
        case OverrideDriver(function, driver, before):
            return OverrideDriver(function, before, driver)
        case SetConsole(number, name, attached):
            return SetConsole(number, name, not attached)
        case SetFramebuffer(device, driver, bound):
            return SetFramebuffer(device, driver, not bound)
        case SetAutoprobe(function, enabled):
            return SetAutoprobe(function, not enabled)
        case SetVfCount(function, count, before):
            return SetVfCount(function, before, count, used=True)
        case SwitchGpuVfs(function, enabled, count):
            return SwitchGpuVfs(function, not enabled, count)
        case SetMigMode(function, enabled):
            return SetMigMode(function, not enabled)
        case SetMixedSize(function, enabled, start):
            return SetMixedSize(function, not enabled, start)
        case CreateGpuInstance(function, profile, profile_id, start):
            return DestroyGpuInstance(function, profile, profile_id, start)
        case DestroyGpuInstance(function, profile, profile_id, start):
            return CreateGpuInstance(function, profile, profile_id, start)
        case CreateComputeInstance(function, start):
            return DestroyComputeInstance(function, start)
        case DestroyComputeInstance(function, start):
            return CreateComputeInstance(function, start)
        case CreateMdev(function, type_id, profile, uuid):
            return RemoveMdev(function, type_id, profile, uuid)
        case RemoveMdev(function, type_id, profile, uuid):
            return CreateMdev(function, type_id, profile, uuid)
        case SetVgpuType(function, type_id, before, profile):
            return SetVgpuType(function, before, type_id, profile)
        case SetVgpuParameters(function, uuid, parameters, before):
            return SetVgpuParameters(function, uuid, before, parameters)
        case SetNodeOwner(port, bus, number, uid, gid, before_uid, before_gid):
            return SetNodeOwner(port, bus, number, before_uid, before_gid, uid, gid)
        case SetBootArguments(loader, path, before, after, arguments, arguments_before):
            return SetBootArguments(loader, path, after, before, arguments_before, arguments)
        case WriteConfiguration(path, before, after):
            return WriteConfiguration(path, after, before)
        case _:
            assert_never(step)


def subject(step: Step) -> str:
    """What a step changes: a PCI address, a USB port, what the kernel calls it, or a file."""
    match step:
        case LoadModule(module):
            return module
        case SetConsole(number):
            return f"vtcon{number}"
        case SetFramebuffer(device):
            return device
        case SetNodeOwner(port):
            return port
        case SetBootArguments() | WriteConfiguration():
            return step.path
        case _:
            return str(step.function)
