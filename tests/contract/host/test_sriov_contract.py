"""Virtual functions of cards: requested, decided, carried out and read back."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway.core.decision import Decision
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied, SwitchGpuVfs
from laneway.core.programs import SRIOV_MANAGE
from laneway.core.refusals import DeviceHeld, DriverMissing, Refusal
from laneway.core.release.device import release
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import set_vfs, switch_gpu
from laneway.core.vgpu.desired import DesiredVgpu, SharedGpu, decide
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import Spec, build
from support.machines import SimulatedMachine, hardware, until

RIG = os.environ.get("LANEWAY_RIG", "")
simulated = pytest.mark.skipif(bool(RIG), reason="this needs a fault or card that the rig lacks")

NO_WAIT = Limits(unbind_lock_seconds=0.0)


class Card:
    """A card of the machine, asked and changed as the agent and the command line do it."""

    def __init__(self, device: Any, folder: Path) -> None:
        self.device = device
        self.address: PciAddress = device.address
        self.hardware: Hardware = hardware(device.machine, folder)

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.address])

    async def carry_out(self, decision: Decision) -> None:
        assert isinstance(decision, Plan), decision
        await execute(self.hardware, decision, actor="test", reason="contract", limits=NO_WAIT)

    async def have(self, count: int, *, passthrough: bool = True) -> None:
        """Desired state for VFs, get them, and find the desired state fulfilled."""
        decision = set_vfs(self.address, count, await self.look(), passthrough=passthrough)
        await self.carry_out(decision)
        again = set_vfs(self.address, count, await self.look(), passthrough=passthrough)
        assert again == Satisfied()

    async def refused(self, count: int) -> tuple[Refusal, ...]:
        situation = await self.look()
        decision = set_vfs(self.address, count, situation)
        assert isinstance(decision, tuple), (decision, situation)
        return decision

    def vfs(self) -> list[PciAddress]:
        return self.device.virtfns()

    def drivers(self) -> list[str]:
        return [self.device.driver(vf) for vf in self.vfs()]

    def autoprobe(self) -> str:
        path = self.device.path("sriov_drivers_autoprobe")
        return self.device.host.read(path).decode().strip()


@pytest.fixture
def card(nvme: Any, tmp_path: Path) -> Card:
    return Card(nvme, tmp_path)


@pytest.fixture
def gpu_card(gpu: Any, tmp_path: Path) -> Card:
    return Card(gpu, tmp_path)


def words(decision: Decision) -> str:
    assert isinstance(decision, tuple), decision
    return "\n".join(refusal.words for refusal in decision)


# ---- counts -----------------------------------------------------------------


async def test_a_number_of_vfs_another_number_and_none(card: Card) -> None:
    await card.have(2)
    assert card.drivers() == ["", ""]
    await card.have(4)
    assert card.drivers() == [""] * 4
    assert card.autoprobe() == "0"
    await card.have(0)
    assert card.vfs() == []
    assert card.autoprobe() == "1"


async def test_vfs_on_vfio_pci_go_with_all_others_and_nothing_of_them_is_remembered(
    card: Card,
) -> None:
    await card.have(3)
    for vf in card.vfs():
        await card.carry_out(binding.bind(vf, await card.look()))
    assert card.drivers() == ["vfio-pci"] * 3
    await card.have(4)
    assert card.drivers() == [""] * 4
    await card.carry_out(binding.bind(card.vfs()[3], await card.look()))
    await card.have(0)
    assert card.hardware.state.originals == {}


async def test_a_held_vf_keeps_all_vfs_and_its_holder_is_named(card: Card) -> None:
    await card.have(3)
    vf = card.vfs()[1]
    card.device.give_to_vfio(vf)
    holder = card.device.machine.hold(card.device.group_node(vf), str(vf))
    for count in (0, 2, 4):
        [refusal] = await card.refused(count)
        assert isinstance(refusal, DeviceHeld)
        assert refusal.device == str(vf)
        assert str(holder.pid) in refusal.words
    assert release(card.address, await card.look()) == (refusal,)
    holder.release()
    await card.have(0)


async def test_a_removal_that_waits_is_reported_and_nothing_is_added_to_it(card: Card) -> None:
    await card.have(2)
    vf = card.vfs()[1]
    card.device.give_to_vfio(vf)
    holder = card.device.machine.hold(card.device.group_node(vf), str(vf))
    # Without asking first, as an administrator at the shell.
    removal = card.device.machine.write(card.device.path("sriov_numvfs"), "0")
    assert removal.waits()
    # The other VF may have to go first.
    until(lambda: not card.vfs() and not card.device.driver(vf))
    for count in (0, 1, 2, 3):
        refusals = await card.refused(count)
        assert str(holder.pid) in words(refusals)
    holder.release()
    removal.finish()
    assert card.vfs() == []


async def test_who_comes_between_plan_and_write_keeps_the_vf(card: Card) -> None:
    await card.have(2)
    vf = card.vfs()[1]
    card.device.give_to_vfio(vf)
    plan = set_vfs(card.address, 0, await card.look())
    card.device.machine.hold(card.device.group_node(vf), str(vf))
    with pytest.raises(StepError) as failure:
        await card.carry_out(plan)
    assert isinstance(failure.value.refusal, DeviceHeld)
    assert card.drivers() == ["", "vfio-pci"]
    assert card.autoprobe() == "0"


async def test_too_many_are_refused_before_the_kernel_is_asked(card: Card) -> None:
    total = card.device.total_vfs
    [refusal] = await card.refused(total + 1)
    assert f"0 to {total}" in refusal.words
    with pytest.raises(OSError, match=os.strerror(errno.ERANGE)):
        card.device.switch(total + 1)


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
async def test_a_card_without_its_driver_makes_no_vfs(card: Card, driver: str) -> None:
    if driver:
        card.device.bind(driver)
    else:
        card.device.unbind()
    assert await card.refused(2) == (
        DriverMissing(str(card.address), driver, "the driver that makes its virtual functions"),
    )
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        card.device.switch(2)


async def test_giving_the_card_back_takes_its_vfs(card: Card) -> None:
    await card.have(4)
    card.device.give_to_vfio(card.vfs()[0])
    await card.carry_out(release(card.address, await card.look()))
    assert card.vfs() == []
    assert release(card.address, await card.look()) == Satisfied()


# ---- network cards, and faults ----------------------------------------------


class _Nic:
    """A network card of a simulated server."""

    def __init__(self, host: SimulatedHost) -> None:
        self.machine = SimulatedMachine(host)
        self.host = host
        functions = scan(host).functions
        self.address = next(f.address for f in functions if (f.total_vfs or 0) >= 64)

    def path(self, attribute: str, of: PciAddress | None = None) -> str:
        return f"/sys/bus/pci/devices/{of or self.address}/{attribute}"

    def virtfns(self) -> list[PciAddress]:
        return list(next(f for f in scan(self.host).functions if f.address == self.address).vfs)

    def driver(self, of: PciAddress | None = None) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.host.readlink(self.path("driver", of)).rpartition("/")[2]
        return ""


@pytest.fixture
def nic(tmp_path: Path) -> Iterator[Card]:
    device = _Nic(build(Spec("plain"), "node"))
    yield Card(device, tmp_path)
    device.machine.close()


@simulated
async def test_vfs_of_a_network_card_stand_in_the_order_of_their_numbers(nic: Card) -> None:
    await nic.have(12)
    assert nic.vfs() == sorted(nic.vfs())
    assert len(nic.vfs()) == 12
    links = nic.device.host.names(f"/sys/bus/pci/devices/{nic.address}")
    assert sorted(name for name in links if name.startswith("virtfn"))[1:3] == [
        "virtfn1",
        "virtfn10",
    ]


@simulated
async def test_vfs_for_the_node_get_its_drivers(nic: Card) -> None:
    await nic.have(2, passthrough=False)
    assert set(nic.drivers()) == {"iavf"}


@simulated
async def test_when_the_new_number_fails_the_old_vfs_come_back(nic: Card) -> None:
    await nic.have(3, passthrough=False)
    before = nic.drivers()
    plan = set_vfs(nic.address, 5, await nic.look())
    assert isinstance(plan, Plan)
    nic.device.host.faults.fail_write(len(plan.steps), errno.EIO)
    with pytest.raises(StepError) as failure:
        await nic.carry_out(plan)
    assert failure.value.undone
    assert failure.value.left_over == ()
    assert nic.drivers() == before
    assert nic.autoprobe() == "1"


# ---- GPUs -------------------------------------------------------------------


async def test_all_vfs_of_a_gpu_go_and_come(gpu_card: Card) -> None:
    there = gpu_card.vfs()
    assert switch_gpu(gpu_card.address, True, await gpu_card.look()) == Satisfied()
    await gpu_card.carry_out(switch_gpu(gpu_card.address, False, await gpu_card.look()))
    assert gpu_card.vfs() == []
    await gpu_card.carry_out(switch_gpu(gpu_card.address, True, await gpu_card.look()))
    assert gpu_card.vfs() == there


async def test_a_vgpu_keeps_the_vfs_until_the_gpu_is_released(gpu_card: Card) -> None:
    gpu = gpu_card.device
    functions = gpu.functions()
    gpu.create(functions[2], gpu.profile("-4Q"))
    refusals = switch_gpu(gpu_card.address, False, await gpu_card.look())
    assert f"{functions[2].address} is in use: vGPU" in words(refusals)

    plan = release(gpu_card.address, await gpu_card.look())
    assert isinstance(plan, Plan)
    assert len(plan.steps) == 2
    assert isinstance(plan.steps[-1], SwitchGpuVfs)
    await gpu_card.carry_out(plan)
    assert gpu_card.vfs() == []
    assert release(gpu_card.address, await gpu_card.look()) == Satisfied()


async def test_what_cannot_be_read_is_never_reported_as_nothing(only: Any, tmp_path: Path) -> None:
    gpu = only("vendor-vfio")
    card = Card(gpu, tmp_path)
    first, second, *_ = gpu.functions()
    kind = gpu.profile("-4Q")
    gpu.create(first, kind)
    gpu.machine.knob("unreadable", errno.EIO)

    situation = await card.look()
    shared = SharedGpu(situation.inventory.vgpus_of(gpu.address))
    decisions = [
        switch_gpu(gpu.address, False, situation),
        release(gpu.address, situation),
        release(first.address, situation),
        plan_layout(DesiredGpu(gpu.address, ((kind.name, 1),)), situation),
        decide(
            DesiredVgpu(first.address, enabled=False, profile="", explicit=True), "node", shared
        ),
        decide(DesiredVgpu(second.address, True, kind.name, explicit=True), "node", shared),
    ]

    for decision in decisions:
        assert "nvidia/current_vgpu_type: cannot be read: Input/output error" in words(decision)
    gpu.machine.knob("unreadable", 0)
    assert gpu.functions()[0].configured.type_name == kind.name


async def test_a_machine_with_one_vgpu_keeps_the_whole_gpu(gpu_card: Card) -> None:
    gpu = gpu_card.device
    first, second = gpu.functions()[:2]
    kind = gpu.profile("-4Q")
    gpu.create(first, kind)
    gpu.create(second, kind)
    holder = gpu.machine.hold(*gpu.vgpu_node(second))
    refusals = release(gpu_card.address, await gpu_card.look())
    assert isinstance(refusals, tuple)
    assert [refusal.device for refusal in refusals] == [str(second.address)]  # type: ignore[attr-defined]
    assert str(holder.pid) in words(refusals)
    # The other vGPU is free, and alone it can go.
    await gpu_card.carry_out(release(first.address, await gpu_card.look()))
    carrying = [one.address for one in gpu.functions() if one.configured]
    assert carrying == [second.address]
    holder.release()
    await gpu_card.carry_out(release(gpu_card.address, await gpu_card.look()))


async def test_a_driver_that_does_not_answer_is_reported_and_its_late_answer_taken(
    gpu_card: Card,
) -> None:
    await gpu_card.carry_out(switch_gpu(gpu_card.address, False, await gpu_card.look()))
    plan = switch_gpu(gpu_card.address, True, await gpu_card.look())
    assert isinstance(plan, Plan)
    machine = gpu_card.device.machine
    machine.knob("block_sriov", 1)
    brief = Limits(command_seconds=3.0 if RIG else 0.1, settle_seconds=0.1)
    with pytest.raises(StepError, match="sriov-manage") as failure:
        await execute(gpu_card.hardware, plan, actor="test", reason="contract", limits=brief)
    assert "did not end within" in failure.value.refusal.words
    machine.knob("block_sriov", 0)

    total = gpu_card.device.function().total_vfs
    until(lambda: len(gpu_card.vfs()) in (0, total))
    decision = switch_gpu(gpu_card.address, True, await gpu_card.look())
    if decision != Satisfied():
        await gpu_card.carry_out(decision)
    assert len(gpu_card.vfs()) == total


@simulated
async def test_a_client_of_the_driver_that_goes_away_in_time_is_waited_for(gpu_card: Card) -> None:
    faults = gpu_card.device.host.faults
    plan = switch_gpu(gpu_card.address, False, await gpu_card.look())
    faults.fail_command(SRIOV_MANAGE, 1, "Cannot obtain unbindLock", times=5)
    with pytest.raises(StepError, match="Cannot obtain unbindLock"):
        await gpu_card.carry_out(plan)
    assert gpu_card.vfs() != []
    faults.fail_command(SRIOV_MANAGE, 1, "Cannot obtain unbindLock", times=4)
    await gpu_card.carry_out(plan)
    assert gpu_card.vfs() == []


@simulated
async def test_what_the_program_says_reaches_the_caller(gpu_card: Card) -> None:
    faults = gpu_card.device.host.faults
    faults.fail_command(SRIOV_MANAGE, 3, "GPU is lost", times=1)
    with pytest.raises(StepError, match="GPU is lost"):
        await gpu_card.carry_out(switch_gpu(gpu_card.address, False, await gpu_card.look()))
    assert gpu_card.vfs() != []
