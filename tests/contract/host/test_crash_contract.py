"""A process that is killed at any moment of a plan leaves a node that its successor puts right.

For every plan, every write and command of it, before, during and after: the process is killed, a
new one recovers, and hardware must be as after an uninterrupted run, in every value that a plan can
change. On the simulation, which can be killed anywhere; the kernel tier takes samples. Without
`LANEWAY_KILLS`, which the durability tier sets, every write has one of the moments, in turn.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from laneway.core.decision import Decision
from laneway.core.layout.plan import MOST_STAGES, DesiredGpu, plan_layout
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateMdev,
    LoadModule,
    Plan,
    RemoveMdev,
    ResetFunction,
    Satisfied,
    SetNodeOwner,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
)
from laneway.core.refusals import DeviceHeld
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import set_vfs
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError, execute
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.recover import recover
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.examples import first
from support.plans import audited, await_late_drivers, hardware_of

EVERY_MOMENT = bool(os.environ.get("LANEWAY_KILLS"))
LIMITS = Limits(
    settle_seconds=0.5, aftermath_seconds=0.05, poll_seconds=0.0, unbind_lock_seconds=0.0
)
GROUP = PciAddress.parse("0000:08:00.0")
NVME = PciAddress.parse("0000:0a:00.0")
A100 = PciAddress.parse("0000:17:00.0")
UUIDS = tuple(f"{number:08d}-3b1c-5a39-9e5e-0d0f0c0b0a09" for number in range(3))

DesiredState = Callable[[Situation], Decision]
T = TypeVar("T")


class Story(NamedTuple):
    """A model, what it is like before, and a desired state, which may take several plans."""

    model: str
    device: PciAddress
    desired: DesiredState
    before: tuple[DesiredState, ...] = ()
    undone: bool = False
    """The last step of the plan is impossible."""
    slow_drivers: bool = False
    """Drivers find new devices after the write that made these has returned."""


# ------------------------------------------------------------------------------------------ desired
# states


def once(plan: Callable[[Situation], tuple[Step, ...]]) -> DesiredState:
    """A plan made by hand, for one time."""
    made: list[Decision] = []

    def desired(situation: Situation) -> Decision:
        made.append(Satisfied() if made else Plan(plan(situation)))
        return made[-1]

    return desired


def created(situation: Situation, count: int, first: int = 0, size: str = "-4Q") -> Iterator[Step]:
    for index in range(first, first + count):
        vf = situation.inventory.vgpus[index]
        if vf.framework == "mdev":
            kind = next(kind for kind in vf.supported if kind.name.endswith(size))
            yield CreateMdev(vf.address, kind.id, kind.name, UUIDS[index])
        else:  # The id is known once the driver lists it.
            yield SetVgpuType(vf.address, "", "0", f"NVIDIA L40S{size}")


def removed(situation: Situation) -> Iterator[Step]:
    for vf in situation.inventory.vgpus:
        if (vgpu := vf.configured) and vf.framework == "mdev":
            yield RemoveMdev(vf.address, vgpu.type_id, vgpu.type_name, vgpu.uuid)
        elif vgpu:
            yield SetVgpuType(vf.address, "0", vgpu.type_id, vgpu.type_name)


def two_vgpus(situation: Situation) -> tuple[Step, ...]:
    return tuple(created(situation, 2))


def no_vgpus(situation: Situation) -> tuple[Step, ...]:
    return tuple(removed(situation))


def other_vgpus(situation: Situation) -> tuple[Step, ...]:
    return (*removed(situation), *created(situation, 1, size="-8Q"))


def off_and_on(situation: Situation) -> tuple[Step, ...]:
    gpu = next(f for f in situation.inventory.functions if f.sriov_gpu)
    return (
        SwitchGpuVfs(gpu.address, enabled=False, count=len(gpu.vfs)),
        SwitchGpuVfs(gpu.address, enabled=True, count=len(gpu.vfs)),
        *created(situation, 1),
    )


def impossible_at_last(situation: Situation) -> tuple[Step, ...]:
    vf = situation.inventory.vgpus[5].address
    made_up = CreateMdev(vf, "nvidia-9999", "NVIDIA A2-99Q", UUIDS[2])
    return (*removed(situation), *created(situation, 1, size="-8Q"), made_up)


def keyboard(situation: Situation) -> tuple[Step, ...]:
    [device, *_] = situation.inventory.usb
    return (SetNodeOwner(device.port, device.bus, device.number, 107, 107, 0, 0),)


def layout(**desired: Any) -> DesiredState:
    return lambda situation: plan_layout(DesiredGpu(A100, **desired), situation)


def failing(desired: DesiredState) -> Callable[[Situation], tuple[Step, ...]]:
    """The steps of a desired state, and one that cannot be done."""

    def steps(situation: Situation) -> tuple[Step, ...]:
        plan = desired(situation)
        assert isinstance(plan, Plan)
        return (*plan.steps, LoadModule("nosuch"))

    return steps


def bound(situation: Situation) -> Decision:
    return binding.bind(GROUP, situation)


def released(situation: Situation) -> Decision:
    return binding.release(GROUP, situation)


def vfs(count: int, *, passthrough: bool = True) -> DesiredState:
    return lambda situation: set_vfs(NVME, count, situation, passthrough=passthrough)


STORIES: dict[str, Callable[[], Story]] = {
    "bind a group": lambda: Story("workstation", GROUP, bound),
    "release a group": lambda: Story("workstation", GROUP, released, (bound,)),
    "bind fails": lambda: Story("workstation", GROUP, once(failing(bound)), undone=True),
    "release fails": lambda: Story(
        "workstation", GROUP, once(failing(released)), (bound,), undone=True
    ),
    "VFs from none": lambda: Story("workstation", NVME, vfs(4)),
    "VFs for the host": lambda: Story(
        "workstation", NVME, vfs(2, passthrough=False), (vfs(4),), slow_drivers=True
    ),
    "VFs to fewer": lambda: Story("workstation", NVME, vfs(2), (vfs(4),)),
    "VFs to none": lambda: Story("workstation", NVME, vfs(0), (vfs(4),)),
    "mdevs": lambda: Story("a2", GROUP, once(two_vgpus)),
    "no mdevs": lambda: Story("a2", GROUP, once(no_vgpus), (once(two_vgpus),)),
    "other mdevs": lambda: Story("a2", GROUP, once(other_vgpus), (once(two_vgpus),)),
    "mdevs fail": lambda: Story(
        "a2", GROUP, once(impossible_at_last), (once(two_vgpus),), undone=True
    ),
    "vendor": lambda: Story("l40s", A100, once(two_vgpus)),
    "no vendor": lambda: Story("l40s", A100, once(no_vgpus), (once(two_vgpus),)),
    "other vendor": lambda: Story("l40s", A100, once(other_vgpus), (once(two_vgpus),)),
    "sriov-manage": lambda: Story("a2", GROUP, once(off_and_on)),
    "slow sriov-manage": lambda: Story("a2", GROUP, once(off_and_on), slow_drivers=True),
    "USB": lambda: Story("plain", NVME, once(keyboard)),
    "MIG": lambda: Story(
        "a100", A100, layout(vgpus=(("GRID A100-1-5C", 1), ("GRID A100-3-20C", 1)))
    ),
}


# ------------------------------------------------------------------------------------------ a life


@pytest.fixture(params=first(*STORIES))
def story(request: pytest.FixtureRequest) -> Callable[[], Story]:
    return STORIES[request.param]


async def begin(story: Story, folder: Path) -> Hardware:
    """A node as it is before the desired state."""
    hardware = hardware_of(build(parse_spec(story.model), "node"), folder)
    for desired in story.before:
        await live(hardware, story._replace(undone=False), desired)
    simulated(hardware).faults.asynchronous_probing = story.slow_drivers
    return hardware


def simulated(hardware: Hardware) -> SimulatedHost:
    assert isinstance(hardware.host, SimulatedHost)
    return hardware.host


def successor(hardware: Hardware, folder: Path, *, finish: bool) -> Hardware:
    """The process that comes after a killed one: it knows only the node and the folder."""
    simulated(hardware).restart(finish=finish)
    return hardware_of(hardware.host, folder)


async def live(hardware: Hardware, story: Story, desired: DesiredState) -> list[Any]:
    """Carry out a desired state to its end; what the node looked like after each plan."""
    seen = []
    for _ in range(MOST_STAGES + 1):
        decision = desired(await observe(hardware, "node", [story.device]))
        if not isinstance(decision, Plan):
            assert isinstance(decision, Satisfied), decision
            return seen
        with undoing(expected=story.undone):
            await execute(hardware, decision, actor="a", reason="r", limits=LIMITS)
        seen.append(picture(hardware))
        if story.undone:
            return seen
    raise AssertionError("it comes to no end")


@contextmanager
def undoing(*, expected: bool) -> Iterator[None]:
    """A plan that fails where that is expected, and leaves nothing over."""
    if not expected:
        yield
        return
    with pytest.raises(StepError) as failure:
        yield
    assert failure.value.left_over == ()


def picture(hardware: Hardware) -> Any:
    """Everything that a plan can change, as the kernel shows it, and what is remembered of it."""
    await_late_drivers()
    host, inventory = hardware.host, scan(hardware.host)
    functions = {str(f.address): f"/sys/bus/pci/devices/{f.address}" for f in inventory.functions}
    attributes = ("driver_override", "sriov_drivers_autoprobe", "nvidia/current_vgpu_type")
    values = {
        f"{address}/{name}": host.read(f"{home}/{name}")
        for address, home in functions.items()
        for name in attributes
        if host.exists(f"{home}/{name}")
    }
    consoles = "/sys/class/vtconsole"
    if host.exists(consoles):
        values |= {name: host.read(f"{consoles}/{name}/bind") for name in host.names(consoles)}
    framebuffer = "/sys/bus/platform/devices/efi-framebuffer.0/driver"
    return {
        "functions": [(str(f.address), f.driver, f.vfs) for f in inventory.functions],
        "vgpus": [(v.address, v.supported, v.creatable, _vgpu(v)) for v in inventory.vgpus],
        "values": values,
        "framebuffer": host.exists(framebuffer),
        "owners": [host.owner(device.device_path) for device in inventory.usb],
        "remembered": (hardware.state.originals, hardware.state.usb_originals),
        "quarantined": hardware.state.quarantined,
        "errors": inventory.errors,
    }


def _vgpu(function: Any) -> Any:
    # The numbers of IOMMU groups are used again, so they identify nothing.
    return function.configured and (function.configured.type_id, function.configured.uuid)


# ----------------------------------------------------------------------------------------- killed


async def test_a_killed_process_leaves_what_its_successor_puts_right(
    story: Callable[[], Story], tmp_path: Path
) -> None:
    reference = await begin(story(), tmp_path / "reference")
    first = simulated(reference).faults.count
    stages = [picture(reference), *await live(reference, story(), story().desired)]
    writes = simulated(reference).faults.count - first
    assert len(stages) > 1
    assert writes > 0

    for number, when, finish in killings(writes):
        folder = tmp_path / f"{number}-{when}-{finish}"
        tale = story()
        hardware = await begin(tale, folder)
        simulated(hardware).faults.kill_at(number, when)
        with pytest.raises(Killed):
            await live(hardware, tale, tale.desired)

        hardware = successor(hardware, folder, finish=finish)
        [recovery] = await recover(hardware, actor="b", limits=LIMITS)

        context = (number, when, finish, recovery)
        assert recovery.outcome == ("undone" if tale.undone else "finished"), context
        assert picture(hardware) in stages, context
        assert await recover(hardware, actor="b", limits=LIMITS) == (), context
        assert audited(hardware)[-1].outcome == ("closed" if tale.undone else "finished"), context
        if not tale.undone:
            await live(hardware, tale, tale.desired)
        assert picture(hardware) == stages[-1], context


@pytest.mark.slow
async def test_a_recovery_that_is_killed_is_recovered(
    story: Callable[[], Story], tmp_path: Path
) -> None:
    reference = await begin(story(), tmp_path / "reference")
    first = simulated(reference).faults.count
    await live(reference, story(), story().desired)
    writes = simulated(reference).faults.count - first
    killed = 0
    for number, again in itertools.product(sample(writes), (1, 2)):
        for when in in_turn(number + again, ("during", "after", "before")):
            folder = tmp_path / f"{number}-{again}-{when}"
            tale = story()
            hardware = await begin(tale, folder)
            simulated(hardware).faults.kill_at(number, when)
            with pytest.raises(Killed):
                await live(hardware, tale, tale.desired)

            hardware = successor(hardware, folder, finish=False)
            simulated(hardware).faults.kill_at(again, when)
            try:
                await recover(hardware, actor="b", limits=LIMITS)
            except Killed:  # where so much is left to do
                killed += 1
            hardware = successor(hardware, folder, finish=False)
            await recover(hardware, actor="c", limits=LIMITS)
            simulated(hardware).faults.clear()
            if not tale.undone:
                await live(hardware, tale, tale.desired)

            assert picture(hardware) == picture(reference), (number, again, when)
    assert killed


def killings(writes: int) -> Iterator[tuple[int, Any, bool]]:
    """Every write; what it set off is done when the successor looks, or still to come."""
    moments = (("before", True), ("during", True), ("during", False), ("after", True))
    for number in range(1, writes + 1):
        for when, finish in in_turn(number, moments):
            yield number, when, finish


def in_turn(number: int, moments: Sequence[T]) -> Sequence[T]:
    """All moments, or that whose turn it is."""
    return moments if EVERY_MOMENT else (moments[number % len(moments)],)


def sample(writes: int) -> list[int]:
    return sorted({1, (writes + 1) // 2, writes})


# ------------------------------------------------------------------------------------------- held


async def test_a_device_that_a_vm_took_meanwhile_is_not_touched(tmp_path: Path) -> None:
    """Two vGPUs are to go; after the first is gone, a VM starts with the second."""
    tale = STORIES["no mdevs"]()
    hardware = await begin(tale, tmp_path)
    before = picture(hardware)
    simulated(hardware).faults.kill_at(2, "before")
    with pytest.raises(Killed):
        await live(hardware, tale, tale.desired)
    hardware = successor(hardware, tmp_path, finish=True)
    held = f"/sys/bus/mdev/devices/{UUIDS[1]}"
    simulated(hardware).hold(held)
    written: list[str] = []
    simulated(hardware).record_changes(lambda change: written.append(change.path))

    [recovery] = await recover(hardware, actor="b", limits=LIMITS)

    assert recovery.outcome == "undone"
    assert "qemu" in str(recovery.refusal)
    assert not [path for path in written if UUIDS[1] in path]
    assert picture(hardware) == before


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_what_a_vm_holds_is_never_written_to(number: int, tmp_path: Path) -> None:
    """A VM runs with one vGPU while a plan for others of its card is killed and recovered."""
    hardware = hardware_of(build(parse_spec("a2"), "node"), tmp_path)
    first = once(lambda situation: tuple(created(situation, 1)))
    await live(hardware, Story("a2", GROUP, first), first)
    vf = scan(hardware.host).vgpus[0]
    vm = simulated(hardware).hold(f"/sys/bus/mdev/devices/{UUIDS[0]}")
    written: list[str] = []
    simulated(hardware).record_changes(lambda change: written.append(change.path))
    simulated(hardware).faults.kill_at(number, "during")
    others = once(lambda situation: (*created(situation, 2, 1), LoadModule("nosuch")))
    with pytest.raises(Killed):
        await live(hardware, Story("a2", GROUP, others), others)

    hardware = successor(hardware, tmp_path, finish=False)
    [recovery] = await recover(hardware, actor="b", limits=LIMITS)

    assert recovery.outcome == "undone"
    assert written
    assert not [path for path in written if str(vf.address) in path or UUIDS[0] in path]
    assert [v.address for v in scan(hardware.host).vgpus if v.configured] == [vf.address]
    vm.release()


async def test_a_removal_that_waits_for_a_vm_is_left_to_it(tmp_path: Path) -> None:
    """The process was killed while its unbind waited in the kernel for a VM."""
    hardware = hardware_of(build(parse_spec("workstation"), "node"), tmp_path)
    tale = Story("workstation", GROUP, bound)
    await live(hardware, tale, tale.desired)
    host = simulated(hardware)
    plan = Plan((Unbind(GROUP, "vfio-pci"), ResetFunction(GROUP)))
    group = host.readlink(f"/sys/bus/pci/devices/{GROUP}/iommu_group").rpartition("/")[2]
    host.faults.kill_at(1, "during")
    with pytest.raises(Killed):
        await execute(hardware, plan, actor="a", reason="r", limits=LIMITS)
    vm = host.hold(f"/dev/vfio/{group}")
    hardware = successor(hardware, tmp_path, finish=True)
    count = host.faults.count

    [recovery] = await recover(hardware, actor="b", limits=LIMITS)

    assert recovery.outcome == "left"
    assert isinstance(recovery.refusal, DeviceHeld)
    assert host.faults.count == count
    vm.release()
