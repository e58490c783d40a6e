"""A life of a simulated host: specs of every kind, faults, virtual machines that come and go.

What is made up is how it goes; `test_host_laws` says what must hold in each.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hypothesis import strategies as st

from laneway.core.claims import usb_access
from laneway.core.decision import Decision
from laneway.core.inventory import Inventory
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    Plan,
    Satisfied,
)
from laneway.core.refusals import (
    Refusal,
)
from laneway.core.release import device as release
from laneway.core.situation import Situation
from laneway.core.sriov import vfs as sriov
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.profiles import profile
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError, execute
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.recover import recover
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.changes import Change
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.processes import Holder
from laneway.sim.spec import build, parse_spec
from support.plans import await_late_drivers, hardware_of

MODELS = ("a2", "l40s", "a100", "rtx-pro-6000", "hgx-h100", "workstation", "plain")
LIMITS = Limits(
    write_seconds=15.0,
    settle_seconds=0.3,
    aftermath_seconds=0.05,
    poll_seconds=0.0,
    unbind_lock_seconds=0.0,
)
SECONDS = 60.0
ROUNDS = 5
"""As many looks as `laneway host` takes at one desired state."""


# ----------------------------------------------------------------------------------------- stories


class Fault(NamedTuple):
    """What goes wrong at the n-th change from the beginning of a desired state."""

    kind: str
    number: int = 1
    detail: int = 0


class Turn(NamedTuple):
    """One desired state, and what happens around it. Numbers choose among what there is then."""

    desired: str
    device: int
    detail: int
    comes: int
    """A virtual machine starts before the spec with what this chooses; negative: none does."""
    goes: int
    """One ends before."""
    joins: int
    """One starts after this many changes of the desired state; 0: none does."""
    fault: Fault


KINDS = ("none", "write", "after", "refuse", "probe", "command", "late", "framebuffer", "block")
ERRORS = (errno.EIO, errno.EBUSY, errno.ENODEV, errno.EINVAL, errno.ENOSPC)
ENDS = (
    "/driver_override",
    "/drivers_probe",
    "/bind",
    "/unbind",
    "/reset",
    "/sriov_numvfs",
    "/create",
    "/remove",
    "/nvidia/current_vgpu_type",
    "/nvidia/vgpu_params",
    "/sriov_drivers_autoprobe",
)
BLOCKED = ("/sys/bus/pci/drivers/", "/sys/bus/pci/devices/", "/sys/bus/mdev/devices/")
COMMANDS: tuple[tuple[str, int, str, int], ...] = (
    ("sriov-manage", 1, "echo: write error: Cannot obtain unbindLock for 0000:08:00.0", 2),
    ("sriov-manage", 1, "Cannot obtain unbindLock", 9),
    ("sriov-manage", 1, "", 1),
    ("nvidia-smi", 19, "In use by another client", 1),
    ("nvidia-smi", 6, "Not Found", 2),
    ("nvidia-smi", 0, "", 1),
    ("nvidia-smi", 0, "\x1b[2JGPU 0: MIG Enabled maybe\n| 7 9999999999999999 ?? |", 3),
    ("modprobe", 1, "modprobe: FATAL: Module not found", 1),
)

numbers = st.integers(0, 40)
faults = st.one_of(
    st.just(Fault("none")),
    st.builds(Fault, st.sampled_from(KINDS), st.integers(1, 8), numbers),
    st.builds(Fault, st.just("kill"), st.integers(1, 8), numbers),
)
turns = st.builds(
    Turn,
    st.sampled_from(("layout", "layout", "passthrough", "vfs", "usb", "release", "release")),
    numbers,
    st.integers(0, 1 << 20),
    st.integers(-20, 40),
    st.integers(-20, 40),
    st.one_of(st.just(0), st.integers(1, 6)),
    faults,
)
stories = st.tuples(st.sampled_from(MODELS), st.lists(turns, min_size=1, max_size=7))

# ------------------------------------------------------------------------------------------ desired
# states


class DesiredState(NamedTuple):
    text: str
    decide: Callable[[Situation], Decision]
    addresses: tuple[PciAddress, ...] = ()
    ports: tuple[str, ...] = ()


def desired_of(turn: Turn, inventory: Inventory) -> DesiredState:
    chosen = random.Random(turn.detail)
    functions = inventory.functions
    gpus = [one for one in functions if one.sriov_gpu]
    if turn.desired == "usb" or (turn.desired == "release" and turn.detail % 9 == 0):
        ports = [*(device.port for device in inventory.usb), "9-9"]
        port = ports[turn.device % len(ports)]
        operation_names = usb_access.claim if turn.desired == "usb" else release.release
        return DesiredState(
            f"{turn.desired} {port}", lambda seen: operation_names(port, seen), ports=(port,)
        )
    if turn.desired == "layout" and gpus:
        return layout_of(gpus[turn.device % min(len(gpus), 2)], inventory, chosen)
    likely = likely_of(inventory)
    anything = [one.address for one in functions] + [PciAddress.parse("0000:7f:1f.7")]
    rare = turn.device >= 39 or not likely
    address = (anything if rare else likely)[turn.device % len(anything if rare else likely)]
    if turn.desired in ("vfs", "layout"):
        count = chosen.choice((0, 1, 2, 2, 3, 4, 16, 32, 99))
        apart = chosen.random() < 0.7
        return DesiredState(
            f"vfs {address} {count} {apart}",
            lambda seen: sriov.set_vfs(address, count, seen, passthrough=apart),
            (address,),
        )
    if turn.desired == "passthrough":
        return DesiredState(
            f"passthrough {address}", lambda seen: binding.bind(address, seen), (address,)
        )
    return DesiredState(
        f"release {address}", lambda seen: release.release(address, seen), (address,)
    )


def likely_of(inventory: Inventory) -> list[PciAddress]:
    """Devices about which something can be desired: few, so that specs meet on one device."""
    able = [
        one
        for one in inventory.functions
        if not one.is_bridge and one.address not in inventory.critical and one.physfn is None
    ]
    cards = [one for one in able if one.total_vfs][:3]
    vfs = [address for card in cards for address in card.vfs[:2]]
    others = [one.address for one in able if one.is_gpu or one.class_code.startswith("0403")]
    return [*(card.address for card in cards), *others[:3], *vfs]


def layout_of(gpu: PciFunction, inventory: Inventory, chosen: random.Random) -> DesiredState:
    known = [one for one in (profile(row.name) for row in profiles_of(gpu.device)) if one]
    backed = chosen.random() < 0.4
    mixed = chosen.random() < 0.3
    fitting = [one for one in known if one.mig_backed == backed] or known
    counts: Counter[str] = Counter()
    if chosen.random() < 0.6:
        there = [one.configured for one in inventory.vgpus if one.parent == gpu.address]
        counts.update(vgpu.type_name for vgpu in there if vgpu and chosen.random() < 0.8)
    if fitting and not mixed and not backed:
        size = chosen.choice(fitting).framebuffer_mib
        fitting = [one for one in fitting if one.framebuffer_mib == size]
    for one in chosen.sample(fitting, k=min(len(fitting), chosen.choice((0, 1, 1, 1, 2)))):
        counts[one.name] += chosen.choice((1, 1, 2, 3))
    parameters = chosen.choice(
        ("", "", "", "frame_rate_limiter=0", "frame_rate_limiter=1", "\x1b[2J")
    )
    wanted = DesiredGpu(gpu.address, tuple(counts.items()), mixed_size=mixed, parameters=parameters)
    return DesiredState(f"{wanted}", lambda seen: plan_layout(wanted, seen), (gpu.address,))


# ------------------------------------------------------------------------------------------ a life

End = Literal["satisfied", "refused", "failed", "killed"]


class Held(NamedTuple):
    """What a virtual machine has open, and what it was when it came."""

    holder: Holder
    function: PciAddress
    uuid: str
    was: Any


class Life:
    """One host from its first desired state to its last."""

    def __init__(self, model: str, folder: str) -> None:
        self.folder = Path(folder)
        self.host: SimulatedHost = build(parse_spec(model), "node")
        self.hardware = hardware_of(self.host, self.folder)
        self.held: list[Held] = []
        self.changes: list[Change] = []
        self.limits = LIMITS
        self.joins = 0
        self.joiner = 0
        self.planned: set[PciAddress | None] = set()
        self.touched: list[str] = []
        self.said: list[str] = []
        self.host.record_changes(self._changed)

    # what comes and goes

    def _changed(self, change: Change) -> None:
        if not change.errno and not change.status:
            self.changes.append(change)
        self.touched += [
            f"{held.function} is held, and was written to: {change}"
            for held in self.held
            if concerns(change, held)
        ]
        if self.joins:
            self.joins -= 1
            if not self.joins:
                self.start(self.joiner)

    def start(self, number: int) -> None:
        """A virtual machine opens one of the devices that it could."""
        inventory = scan(self.host)
        offers = [
            (one.address, one.configured.uuid) for one in inventory.vgpus if one.configured
        ] + [(one.address, "") for one in inventory.functions if one.driver == "vfio-pci"]
        # Who comes in the middle of a plan wants what the plan is about.
        offers = [offer for offer in offers if offer[0] in self.planned] or offers
        if not offers:
            return
        function, uuid = offers[number % len(offers)]
        home = f"/sys/bus/mdev/devices/{uuid}" if uuid else f"/sys/bus/pci/devices/{function}"
        try:
            holder = self.host.hold(home)
        except OSError:
            return  # not every device can be opened at every moment
        self.held.append(Held(holder, function, uuid, self.shown(function)))

    def shown(self, address: PciAddress) -> Any:
        """What a virtual machine would miss."""
        inventory = scan(self.host)
        function = next((one for one in inventory.functions if one.address == address), None)
        vgpu = next((one.configured for one in inventory.vgpus if one.address == address), None)
        return (
            function and function.driver,
            vgpu and (vgpu.type_id, vgpu.uuid, vgpu.gpu_instance),
        )

    def end(self, number: int) -> None:
        if self.held:
            self.held.pop(number % len(self.held)).holder.release()

    # what goes wrong

    def arm(self, fault: Fault) -> None:
        faults, number, detail = self.host.faults, fault.number, fault.detail
        error = ERRORS[detail % len(ERRORS)]
        match fault.kind:
            case "write":
                faults.fail_write(number, error)
            case "after":
                faults.fail_after(number, error)
            case "refuse":
                faults.refuse(ENDS[detail % len(ENDS)], error, 1 + number % 3)
            case "probe":
                faults.fail_probe(1 + detail % 4, error)
            case "command":
                faults.fail_command(*COMMANDS[detail % len(COMMANDS)])
            case "late":
                faults.asynchronous_probing = True
            case "framebuffer":
                faults.framebuffer_stays = True
            case "block":
                faults.block(BLOCKED[detail % len(BLOCKED)])
            case "kill":
                when: Any = ("before", "during", "after")[detail % 3]
                faults.kill_at(number, when)

    def successor(self, *, finish: bool) -> None:
        self.host.restart(finish=finish)
        self.hardware = hardware_of(self.host, self.folder)

    # one desired state

    async def fulfil(self, desired: DesiredState) -> tuple[End, list[Any]]:
        """As `laneway host` does; how it ended, and pictures before each plan and at the end."""
        pictures = [picture(self.hardware)]
        await recover(self.hardware, actor="law", limits=LIMITS)
        for _ in range(ROUNDS):
            count = self.host.faults.count
            decision = desired.decide(
                await observe(self.hardware, "node", desired.addresses, desired.ports)
            )
            assert self.host.faults.count == count, "a look has changed something"
            if isinstance(decision, Satisfied):
                return "satisfied", pictures
            if not isinstance(decision, Plan):
                assert decision, desired.text
                assert all(isinstance(one, Refusal) and clean(one.words) for one in decision)
                assert picture(self.hardware) == pictures[-1], (desired.text, decision)
                return "refused", pictures
            assert all(clean(describe(step)) for step in decision.steps)
            self.planned = {getattr(step, "function", None) for step in decision.steps}
            try:
                await execute(
                    self.hardware, decision, actor="law", reason=desired.text, limits=self.limits
                )
            except StepError as error:
                self.said.append(error.refusal.words)
                assert clean(self.said[-1])
                pictures.append((error, picture(self.hardware)))
                return "failed", pictures
            pictures.append(picture(self.hardware))
        raise AssertionError(f"it comes to no end: {desired.text}")

    async def live(self, turn: Turn, *, fault: bool = True) -> tuple[DesiredState, End, list[Any]]:
        if turn.goes >= 0:
            self.end(turn.goes)
        if turn.comes >= 0:
            self.start(turn.comes)
        desired = desired_of(turn, scan(self.host))
        self.joins, self.joiner = turn.joins, turn.detail
        blocked = turn.fault.kind == "block"
        self.limits = LIMITS._replace(write_seconds=1.0) if blocked else LIMITS
        if fault:
            self.arm(turn.fault)
        try:
            async with asyncio.timeout(SECONDS):
                end, pictures = await self.fulfil(desired)
        except Killed:
            end, pictures = "killed", []
        self.joins = 0
        self.planned.clear()
        return desired, end, pictures

    async def calm(self) -> None:
        """Nothing goes wrong any more; what waited in the kernel has come back."""
        self.host.faults.clear()
        while self.host.waiting:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0.001)


def concerns(change: Change, held: Held) -> bool:
    """Whether a change was made to something that is held, by its own name."""
    names = (str(held.function), held.uuid) if held.uuid else (str(held.function),)
    return any(
        name in change.path or change.data.strip() == name for name in names
    ) and not change.path.endswith(("/create",))


def clean(text: str) -> bool:
    return bool(text) and len(text) < 8000


def picture(hardware: Hardware) -> Any:
    """Everything that a plan can change, as the kernel shows it, and what is remembered of it."""
    await_late_drivers()
    host, inventory = hardware.host, scan(hardware.host)
    functions = {str(f.address): f"/sys/bus/pci/devices/{f.address}" for f in inventory.functions}
    attributes = (
        "driver_override",
        "sriov_drivers_autoprobe",
        "nvidia/current_vgpu_type",
        "nvidia/vgpu_params",
    )
    values = {
        f"{address}/{name}": shown(host, f"{home}/{name}")
        for address, home in functions.items()
        for name in attributes
        if host.exists(f"{home}/{name}")
    }
    consoles = "/sys/class/vtconsole"
    if host.exists(consoles):
        values |= {name: host.read(f"{consoles}/{name}/bind") for name in host.names(consoles)}
    framebuffer = "/sys/bus/platform/devices/efi-framebuffer.0/driver"
    return {
        "functions": {str(f.address): (f.driver, f.vfs) for f in inventory.functions},
        "vgpus": {
            str(v.address): (
                sorted(kind.name for kind in v.creatable),
                v.configured and (v.configured.type_id, v.configured.uuid),
            )
            for v in inventory.vgpus
        },
        "values": values,
        "framebuffer": host.exists(framebuffer),
        "owners": [host.owner(device.device_path) for device in inventory.usb],
        "remembered": (hardware.state.originals, hardware.state.usb_originals),
        "quarantined": hardware.state.quarantined,
    }


def shown(host: SimulatedHost, path: str) -> bytes | int:
    """A value, or the error that there is instead of one."""
    try:
        return host.read(path)
    except OSError as error:
        return error.errno or 0


def differs(one: Any, other: Any) -> Any:
    """What two pictures differ in, for who reads of a failure."""
    return {
        key: {
            name: (one[key].get(name), other[key].get(name))
            for name in one[key].keys() | other[key].keys()
            if one[key].get(name) != other[key].get(name)
        }
        if isinstance(one[key], dict)
        else (one[key], other[key])
        for key in one
        if one[key] != other[key]
    }
