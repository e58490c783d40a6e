"""Whatever is desired of a GPU, one spec after the other, on simulated cards of every kind.

A desired state that is not refused is reached, with no step failing on the way; one that is refused
changes nothing; and what a virtual machine holds is the same after every desired state.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from laneway.core.decision import Decision
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction
from laneway.core.layout.plan import MOST_STAGES, DesiredGpu, plan_layout
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import Refusal
from laneway.core.situation import Situation
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.profiles import profile
from laneway.host.plans.execute import Limits, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.examples import first
from support.machines import Holder, SimulatedMachine, hardware

NO_WAIT = Limits(unbind_lock_seconds=0.0, settle_seconds=0.0, poll_seconds=0.0)
DESIRED_STATES = 20
SEEDS = (1,)


class Life:
    """A simulated GPU with virtual machines that come and go."""

    def __init__(self, model: str, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = SimulatedMachine(build(Spec(model), "node"))
        self.hardware = hardware(self.machine, folder)
        gpu = next(one for one in scan(self.machine.host).functions if one.sriov_gpu)
        self.address: PciAddress = gpu.address
        self.board = "A2" if model == "a2" else ""
        rows = [row for row in profiles_of(gpu.device) if row.type_id and self.board in row.name]
        self.names = [row.name for row in rows if not self.board or f" {self.board}-" in row.name]
        self.holders: dict[PciAddress, Holder] = {}

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.address])

    def desired(self, there: tuple[VgpuFunction, ...]) -> DesiredGpu:
        """Often possible, sometimes not: as a rule what is held is part of it."""
        counts: Counter[str] = Counter()
        if self.random.random() < 0.8:
            held = (one.configured for one in there if one.address in self.holders)
            counts.update(vgpu.type_name for vgpu in held if vgpu)
        kept = [found for name in counts if (found := profile(name))]
        backed = kept[0].mig_backed if kept else self.random.random() < 0.5
        mixed = not backed and self.random.random() < 0.4
        known = [one for one in map(profile, self.names) if one and one.mig_backed == backed]
        if known and not mixed and not backed:
            size = (kept or [self.random.choice(known)])[0].framebuffer_mib
            known = [one for one in known if one.framebuffer_mib == size]
        for one in self.random.sample(known, k=min(len(known), self.random.randint(0, 3))):
            counts[one.name] += self.random.randint(1, 3)
        parameters = self.random.choice(["", "", "", "frame_rate_limiter=0"])
        return DesiredGpu(
            self.address, tuple(counts.items()), mixed_size=mixed, parameters=parameters
        )

    def come_and_go(self, vgpus: tuple[VgpuFunction, ...]) -> None:
        for address in sorted(self.holders):
            if self.random.random() < 0.5:
                self.holders.pop(address).release()
        for vgpu in vgpus:
            if vgpu.configured and vgpu.address not in self.holders and self.random.random() < 0.1:
                self.holders[vgpu.address] = self.machine.hold(*self.node(vgpu))

    def node(self, vgpu: VgpuFunction) -> tuple[str, str]:
        assert vgpu.configured is not None
        uuid = vgpu.configured.uuid
        home = f"/sys/bus/mdev/devices/{uuid}" if uuid else f"/sys/bus/pci/devices/{vgpu.address}"
        group = self.machine.host.readlink(f"{home}/iommu_group").rpartition("/")[2]
        return f"/dev/vfio/{group}", uuid or str(vgpu.address)


def carried(situation: Situation) -> dict[PciAddress, ConfiguredVgpu]:
    """What each function of the first GPU carries, with where it sits."""
    return {one.address: one.configured for one in situation.inventory.vgpus if one.configured}


async def reach(life: Life, desired: DesiredGpu) -> tuple[Decision, int]:
    """Plan and carry out until nothing is left; the last decision, and how many plans it took."""
    for plans in range(MOST_STAGES + 1):
        decision = plan_layout(desired, await life.look())
        if not isinstance(decision, Plan):
            return decision, plans
        await execute(life.hardware, decision, actor="test", reason="law", limits=NO_WAIT)
    raise AssertionError(f"never done with {desired}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model", first("a2", "l40s", "a100", "rtx-pro-6000"))
async def test_any_sequence_of_desired_states(model: str, seed: int, tmp_path: Path) -> None:
    life = Life(model, tmp_path, seed)
    seen: set[type] = set()
    for _ in range(DESIRED_STATES):
        life.come_and_go((await life.look()).inventory.vgpus)
        before = await life.look()
        desired = life.desired(before.inventory.vgpus)
        held = {at: vgpu for at, vgpu in carried(before).items() if at in life.holders}

        decision, plans = await reach(life, desired)

        after = carried(await life.look())
        seen.add(type(decision))
        assert {at: after.get(at) for at in held} == held, desired
        if isinstance(decision, Satisfied):
            assert Counter(vgpu.type_name for vgpu in after.values()) == dict(desired.vgpus), (
                desired
            )
        else:
            assert all(isinstance(one, Refusal) and one.words for one in decision)
            assert plans == 0, (desired, decision)
            assert after == carried(before), desired
    assert seen == {Satisfied, tuple}
    life.machine.close()
