"""MIG mode, GPU instances and the vGPUs in them. The kernel rig has no card with MIG."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.core.decision import Decision
from laneway.core.gpu.modes import GpuModes
from laneway.core.layout.plan import MOST_STAGES, GpuWish, plan_layout
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateGpuInstance,
    DestroyGpuInstance,
    Plan,
    Satisfied,
    SetMigMode,
    SetMixedSize,
)
from laneway.core.programs import NVIDIA_SMI
from laneway.core.situation import Situation
from laneway.host.hardware import Hardware
from laneway.host.nvidia.modes import read_modes
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import Spec, build
from support.machines import SimulatedMachine, hardware

pytestmark = pytest.mark.skipif(bool(os.environ.get("LANEWAY_RIG")), reason="no card with MIG")

NO_WAIT = Limits(unbind_lock_seconds=0.0, settle_seconds=0.0, poll_seconds=0.0)
DC = "NVIDIA RTX Pro 6000 Blackwell DC"
A100 = "GRID A100"


class Card:
    """The first GPU of a simulated host."""

    def __init__(self, machine: SimulatedMachine, folder: Path) -> None:
        self.machine = machine
        self.host: SimulatedHost = machine.host
        self.hardware: Hardware = hardware(machine, folder)
        gpus = (one for one in scan(machine.host).functions if one.sriov_gpu)
        self.address: PciAddress = next(gpus).address

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.address])

    async def modes(self) -> GpuModes:
        return await read_modes(self.host, self.address)

    async def smi(self, *words: str) -> None:
        """What a person at the shell does."""
        done = await self.host.run((NVIDIA_SMI, *words), 60)
        assert done.status == 0, done.output

    async def do(self, plan: Plan) -> None:
        await execute(self.hardware, plan, actor="test", reason="contract", limits=NO_WAIT)

    async def decide(self, *vgpus: tuple[str, int]) -> Decision:
        return plan_layout(GpuWish(self.address, vgpus), await self.look())

    async def have(self, *vgpus: tuple[str, int]) -> list[Plan]:
        plans: list[Plan] = []
        while not isinstance(decision := await self.decide(*vgpus), Satisfied):
            assert isinstance(decision, Plan), decision
            assert len(plans) < MOST_STAGES
            await self.do(decision)
            plans.append(decision)
        carried = (one.configured for one in (await self.look()).inventory.vgpus)
        assert Counter(one.type_name for one in carried if one) == Counter(dict(vgpus))
        return plans

    async def refused(self, *vgpus: tuple[str, int]) -> list[str]:
        decision = await self.decide(*vgpus)
        assert isinstance(decision, tuple), decision
        return [one.reason for one in decision]

    async def instances(self) -> list[tuple[str, int, int]]:
        modes = await self.modes()
        return [(one.profile, one.start, one.compute_instances) for one in modes.instances]


def _card(model: str, folder: Path) -> Iterator[Card]:
    machine = SimulatedMachine(build(Spec(model), "node"))
    yield Card(machine, folder)
    machine.close()


@pytest.fixture
def a100(tmp_path: Path) -> Iterator[Card]:
    yield from _card("a100", tmp_path)


@pytest.fixture
def rtx(tmp_path: Path) -> Iterator[Card]:
    yield from _card("rtx-pro-6000", tmp_path)


async def test_a_card_says_whether_it_is_in_mig_mode_and_what_it_could_be(a100: Card) -> None:
    modes = await a100.modes()
    assert modes.mig is False
    assert {one.name: one.starts for one in modes.profiles}["3g.20gb"] == (0, 4)
    assert modes.instances == ()


async def test_mig_backed_vgpus_on_mdev_from_a_time_sliced_card(a100: Card) -> None:
    first, *_ = await a100.have((f"{A100}-3-20C", 1), (f"{A100}-1-5C", 2))

    assert SetMigMode(a100.address, enabled=True) in first.steps
    assert await a100.instances() == [("3g.20gb", 0, 1), ("1g.5gb", 4, 1), ("1g.5gb", 5, 1)]


async def test_several_vgpus_share_a_gpu_instance_where_the_chip_can(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-2Q", 13), (f"{DC}-1-8Q", 3))

    assert await rtx.instances() == [("1g.24gb+gfx", start, 1) for start in (0, 2, 4)] or (
        len(await rtx.instances()) == 3
    )
    placed = [
        (one.configured.gpu_instance, one.configured.type_name)
        for one in (await rtx.look()).inventory.vgpus
        if one.configured
    ]
    assert len(set(placed)) == 3


async def test_and_back_to_a_time_sliced_card(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-24Q", 4))

    plans = await rtx.have((f"{DC}-8Q", 2))

    assert SetMigMode(rtx.address, enabled=False) in plans[0].steps
    assert (await rtx.modes()).mig is False


async def test_a_wish_that_needs_other_instances_keeps_those_it_can(a100: Card) -> None:
    await a100.have((f"{A100}-3-20C", 1), (f"{A100}-1-5C", 3))

    (plan, *_) = await a100.have((f"{A100}-3-20C", 1), (f"{A100}-2-10C", 1), (f"{A100}-1-5C", 1))

    assert not [step for step in plan.steps if isinstance(step, DestroyGpuInstance)] or all(
        step.profile == "1g.5gb" for step in plan.steps if isinstance(step, DestroyGpuInstance)
    )
    assert ("3g.20gb", 0, 1) in await a100.instances()


async def test_sets_that_cannot_be_are_refused_before_the_first_write(a100: Card) -> None:
    assert await a100.refused((f"{A100}-3-20C", 3)) == ["InstancesDoNotFit"]
    assert await a100.refused((f"{A100}-3-20C", 2), (f"{A100}-1-5C", 1)) == ["InstancesDoNotFit"]
    assert await a100.refused((f"{A100}-1-5C", 1), (f"{A100}-20C", 1)) == ["ModesExclusive"]
    assert (await a100.modes()).mig is False


async def test_foreign_instances_stay_unless_they_are_in_the_way(a100: Card) -> None:
    await a100.have((f"{A100}-1-5C", 1))
    await a100.smi("mig", "-i", str(a100.address), "-cgi", "19:6", "-C")
    before = await a100.instances()

    await a100.have((f"{A100}-1-5C", 2))
    assert await a100.instances() == before

    await a100.have((f"{A100}-7-40C", 1))
    assert await a100.instances() == [("7g.40gb", 0, 1)]


async def test_an_instance_whose_vgpu_is_held_is_not_destroyed(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-24Q", 1))
    carrier = next(one for one in (await rtx.look()).inventory.vgpus if one.configured)
    group = rtx.host.readlink(f"/sys/bus/pci/devices/{carrier.address}/iommu_group")
    rtx.machine.hold(f"/dev/vfio/{group.rpartition('/')[2]}", str(carrier.address))

    assert "DeviceHeld" in await rtx.refused((f"{DC}-8Q", 1))
    assert await rtx.refused((f"{DC}-1-24Q", 1), (f"{DC}-4-96Q", 1)) == ["InstancesDoNotFit"]
    await rtx.have((f"{DC}-1-24Q", 1), (f"{DC}-2-48Q", 1))


async def test_a_failing_step_brings_the_old_instances_back(a100: Card) -> None:
    await a100.have((f"{A100}-3-20C", 1))
    before, modes = await a100.instances(), await a100.modes()
    one = next(one for one in modes.profiles if one.name == "7g.40gb")
    plan = await a100.decide((f"{A100}-7-40C", 1))
    assert isinstance(plan, Plan)
    wrong = tuple(
        CreateGpuInstance(step.function, step.profile, one.id, start=3)
        if isinstance(step, CreateGpuInstance)
        else step
        for step in plan.steps
    )

    with pytest.raises(StepError) as failure:
        await a100.do(Plan(wrong))

    assert failure.value.undone
    assert "nvidia-smi ended with status" in str(failure.value)
    assert await a100.instances() == before
    assert await a100.decide((f"{A100}-3-20C", 1)) == Satisfied()


async def test_a_mode_that_a_gpu_instance_has_for_itself(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-2Q", 1))
    (_, start, _), *_ = await rtx.instances()
    held = Plan((SetMixedSize(rtx.address, enabled=True, instance_start=start),))
    with pytest.raises(StepError, match="nvidia-smi ended with status 19"):
        await rtx.do(held)

    await rtx.have()
    await rtx.do(held)

    await rtx.do(Plan((SetMixedSize(rtx.address, enabled=False, instance_start=start),)))
