"""MIG mode, GPU instances and the vGPUs in them.

In the kernel rig there is one such card, whose GPU instances carry one vGPU each.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from laneway.core.decision import Decision
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import VgpuFunction, VgpuType
from laneway.core.layout.plan import MOST_STAGES, DesiredGpu, plan_layout
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateGpuInstance,
    DestroyGpuInstance,
    Plan,
    Satisfied,
    SetMigMode,
    SetMixedSize,
)
from laneway.core.programs import NVIDIA_SMI, SRIOV_MANAGE
from laneway.core.situation import Situation
from laneway.core.vgpu.desired import mdev_uuid
from laneway.host.hardware import Hardware
from laneway.host.nvidia.modes import read_modes
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.port import Executor
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.machines import SECONDS, RigMachine, SimulatedMachine, hardware

RIG = os.environ.get("LANEWAY_RIG", "")
simulated = pytest.mark.skipif(
    bool(RIG), reason="too long for a guest, or a card that shares instances"
)

NO_WAIT = Limits(unbind_lock_seconds=0.0, settle_seconds=0.0, poll_seconds=0.0)
DC = "NVIDIA RTX Pro 6000 Blackwell DC"
A100 = "GRID A100"


class Card:
    """The last GPU of a machine."""

    def __init__(self, machine: SimulatedMachine | RigMachine, folder: Path) -> None:
        self.machine = machine
        self.host = machine.host
        self.executor: Executor = machine.executor
        self.hardware: Hardware = hardware(machine, folder)
        *_, gpu = (one for one in scan(machine.host).functions if one.sriov_gpu)
        self.address: PciAddress = gpu.address

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.address])

    async def modes(self) -> GpuModes:
        return await read_modes(self.executor, self.address)

    async def smi(self, *words: str, status: int = 0) -> None:
        """What a person at the shell does."""
        await self.run(NVIDIA_SMI, *words, status=status)

    async def run(self, *argv: str, status: int = 0) -> None:
        done = await self.executor.run(argv, SECONDS)
        assert done.status == status, done.output

    async def do(self, plan: Plan) -> None:
        await execute(self.hardware, plan, actor="test", reason="contract", limits=NO_WAIT)

    async def decide(self, *vgpus: tuple[str, int]) -> Decision:
        return plan_layout(DesiredGpu(self.address, vgpus), await self.look())

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


@pytest.fixture
async def a100(tmp_path: Path) -> AsyncIterator[Card]:
    machine = RigMachine() if RIG else SimulatedMachine(build(Spec("a100"), "node"))
    card = Card(machine, tmp_path)
    yield card
    machine.close()
    if RIG:
        for file in ("unbind", "bind"):  # all but MIG mode goes with the driver
            machine.host.write(f"/sys/bus/pci/drivers/nvidia/{file}", str(card.address))
        await card.smi("-i", str(card.address), "-mig", "0")


@pytest.fixture
def rtx(tmp_path: Path) -> Iterator[Card]:
    machine = SimulatedMachine(build(Spec("rtx-pro-6000"), "node"))
    yield Card(machine, tmp_path)
    machine.close()


async def test_a_type_of_a_gpu_instance_is_refused_until_there_is_one(a100: Card) -> None:
    gpu = str(a100.address)
    await a100.run(SRIOV_MANAGE, "-d", gpu)
    await a100.smi("-i", gpu, "-mig", "1")
    await a100.run(SRIOV_MANAGE, "-e", gpu)
    backed = f"{A100}-3-20C"

    def functions() -> list[VgpuFunction]:
        return [one for one in scan(a100.host).vgpus if one.parent == a100.address]

    def create(function: VgpuFunction) -> int:
        kind = next((one for one in function.supported if one.name == backed), VgpuType("476", ""))
        home = f"/sys/bus/pci/devices/{function.address}"
        try:
            if function.framework == "mdev":
                path = f"{home}/mdev_supported_types/{kind.id}/create"
                a100.host.write(path, mdev_uuid("node", function))
            else:
                a100.host.write(f"{home}/nvidia/current_vgpu_type", kind.id)
        except OSError as error:
            return error.errno or 0
        return 0

    first, second, *_ = functions()
    refused = errno.ENOSPC if first.framework == "mdev" else errno.EIO
    assert first.creatable == ()
    assert create(first) == refused
    await a100.smi("-i", gpu, "-mig", "0", status=19)  # it has VFs

    await a100.smi("mig", "-i", gpu, "-cgi", "9:4", "-C")
    assert [kind.name for kind in functions()[0].creatable] == [backed]
    assert create(first) == 0
    assert create(second) == refused
    carried = next(one.configured for one in functions() if one.configured)
    assert (carried.type_name, carried.gpu_instance) == (backed, 2)
    await a100.smi("mig", "-i", gpu, "-dgi", "-gi", "2", status=19)  # it has a compute instance
    await a100.smi("mig", "-i", gpu, "-dci", "-gi", "2", status=19)  # it has a vGPU


@simulated
async def test_a_card_says_whether_it_is_in_mig_mode_and_what_it_could_be(a100: Card) -> None:
    modes = await a100.modes()
    assert modes.mig is False
    assert {one.name: one.starts for one in modes.profiles}["3g.20gb"] == (0, 4)
    assert modes.instances == ()


@pytest.mark.skipif(RIG == "vendor", reason="the cards of the other framework share instances")
async def test_mig_backed_vgpus_on_mdev_from_a_time_sliced_card(a100: Card) -> None:
    first, *_ = await a100.have((f"{A100}-3-20C", 1), (f"{A100}-1-5C", 2))

    assert SetMigMode(a100.address, enabled=True) in first.steps
    assert await a100.instances() == [("3g.20gb", 0, 1), ("1g.5gb", 4, 1), ("1g.5gb", 5, 1)]


@simulated
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


@simulated
async def test_and_back_to_a_time_sliced_card(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-24Q", 4))

    plans = await rtx.have((f"{DC}-8Q", 2))

    assert SetMigMode(rtx.address, enabled=False) in plans[0].steps
    assert (await rtx.modes()).mig is False


@simulated
async def test_a_desired_state_that_needs_other_instances_keeps_those_it_can(a100: Card) -> None:
    await a100.have((f"{A100}-3-20C", 1), (f"{A100}-1-5C", 3))

    (plan, *_) = await a100.have((f"{A100}-3-20C", 1), (f"{A100}-2-10C", 1), (f"{A100}-1-5C", 1))

    assert not [step for step in plan.steps if isinstance(step, DestroyGpuInstance)] or all(
        step.profile == "1g.5gb" for step in plan.steps if isinstance(step, DestroyGpuInstance)
    )
    assert ("3g.20gb", 0, 1) in await a100.instances()


@simulated
async def test_sets_that_cannot_be_are_refused_before_the_first_write(a100: Card) -> None:
    assert await a100.refused((f"{A100}-3-20C", 3)) == ["InstancesDoNotFit"]
    assert await a100.refused((f"{A100}-3-20C", 2), (f"{A100}-1-5C", 1)) == ["InstancesDoNotFit"]
    assert await a100.refused((f"{A100}-1-5C", 1), (f"{A100}-20C", 1)) == ["ModeConflict"]
    assert (await a100.modes()).mig is False


@simulated
async def test_foreign_instances_stay_unless_they_are_in_the_way(a100: Card) -> None:
    await a100.have((f"{A100}-1-5C", 1))
    await a100.smi("mig", "-i", str(a100.address), "-cgi", "19:6", "-C")
    before = await a100.instances()

    await a100.have((f"{A100}-1-5C", 2))
    assert await a100.instances() == before

    await a100.have((f"{A100}-7-40C", 1))
    assert await a100.instances() == [("7g.40gb", 0, 1)]


@simulated
async def test_an_instance_whose_vgpu_is_held_is_not_destroyed(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-24Q", 1))
    carrier = next(one for one in (await rtx.look()).inventory.vgpus if one.configured)
    group = rtx.host.readlink(f"/sys/bus/pci/devices/{carrier.address}/iommu_group")
    rtx.machine.hold(f"/dev/vfio/{group.rpartition('/')[2]}", str(carrier.address))

    assert "DeviceInUse" in await rtx.refused((f"{DC}-8Q", 1))
    assert await rtx.refused((f"{DC}-1-24Q", 1), (f"{DC}-4-96Q", 1)) == ["InstancesDoNotFit"]
    await rtx.have((f"{DC}-1-24Q", 1), (f"{DC}-2-48Q", 1))


@simulated
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


@simulated
async def test_a_mode_that_a_gpu_instance_has_for_itself(rtx: Card) -> None:
    await rtx.have((f"{DC}-1-2Q", 1))
    (_, start, _), *_ = await rtx.instances()
    held = Plan((SetMixedSize(rtx.address, enabled=True, instance_start=start),))
    with pytest.raises(StepError, match="nvidia-smi ended with status 19"):
        await rtx.do(held)

    await rtx.have()
    await rtx.do(held)

    await rtx.do(Plan((SetMixedSize(rtx.address, enabled=False, instance_start=start),)))
