"""GPUs released from everything that can live on them; the rig has only part of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.core.decision import Decision
from laneway.core.layout.plan import MOST_STAGES, DesiredGpu, plan_layout
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.programs import SRIOV_MANAGE
from laneway.core.release.device import release
from laneway.core.situation import Situation
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.machines import SimulatedMachine, hardware

NO_WAIT = Limits(unbind_lock_seconds=0.0)


class Gpu:
    """The first GPU of a simulated host, with a layout on it."""

    def __init__(self, machine: SimulatedMachine, folder: Path, vgpus: dict[str, int]) -> None:
        self.machine = machine
        self.hardware: Hardware = hardware(machine, folder)
        gpus = (one for one in scan(machine.host).functions if one.sriov_gpu)
        self.address: PciAddress = next(gpus).address
        mixed = folder.name == "mixed"
        self.desired = DesiredGpu(self.address, tuple(vgpus.items()), mixed_size=mixed)

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.address])

    async def do(self, decision: Decision) -> None:
        assert isinstance(decision, Plan), decision
        await execute(self.hardware, decision, actor="test", reason="contract", limits=NO_WAIT)

    async def lay_out(self) -> None:
        for _ in range(MOST_STAGES):
            decision = plan_layout(self.desired, await self.look())
            if decision == Satisfied():
                return
            await self.do(decision)
        assert plan_layout(self.desired, await self.look()) == Satisfied()


CARDS = {
    "mig": ("a100", {"GRID A100-3-20C": 1, "GRID A100-1-5C": 2}),
    "mixed": ("l40s", {"NVIDIA L40S-8Q": 1, "NVIDIA L40S-4Q": 2}),
}


@pytest.fixture(params=sorted(CARDS))
def gpu(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gpu]:
    model, vgpus = CARDS[request.param]
    machine = SimulatedMachine(build(Spec(model), "node"))
    yield Gpu(machine, tmp_path / request.param, vgpus)
    machine.close()


async def test_everything_on_a_gpu_goes_and_can_come_again(gpu: Gpu) -> None:
    await gpu.lay_out()
    before = await gpu.look()
    await gpu.do(release(gpu.address, before))
    after = await gpu.look()
    assert release(gpu.address, after) == Satisfied()
    assert not [one for one in after.inventory.functions if one.physfn == gpu.address]
    assert after.gpus[gpu.address].instances == ()
    # MIG mode is the card's own setting.
    assert after.gpus[gpu.address].mig == before.gpus[gpu.address].mig
    await gpu.lay_out()


async def test_when_the_last_step_fails_the_whole_layout_is_back(gpu: Gpu) -> None:
    await gpu.lay_out()
    gpu.machine.host.faults.fail_command(SRIOV_MANAGE, 1, "GPU is lost")
    with pytest.raises(StepError, match="GPU is lost") as failure:
        await gpu.do(release(gpu.address, await gpu.look()))
    assert failure.value.left_over == ()
    assert plan_layout(gpu.desired, await gpu.look()) == Satisfied()
