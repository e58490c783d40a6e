"""A GPU's whole desired state, planned, carried out and found fulfilled, on both frameworks."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from laneway.core.decision import Decision
from laneway.core.layout.plan import MOST_STAGES, DesiredGpu, plan_layout
from laneway.core.phrases import several
from laneway.core.plan import Plan, Satisfied, SetMixedSize, SwitchGpuVfs
from laneway.core.refusals import Refusal
from laneway.core.situation import Situation
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, execute
from laneway.host.situation import observe
from support.machines import hardware

RIG = os.environ.get("LANEWAY_RIG", "")
NO_WAIT = Limits(unbind_lock_seconds=0.0)


class Card:
    """A GPU as the agent and the command line lay it out."""

    def __init__(self, gpu: Any, folder: Path) -> None:
        self.gpu = gpu
        self.hardware: Hardware = hardware(gpu.machine, folder)

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.gpu.address])

    def desired(self, *vgpus: tuple[str, int], **more: Any) -> DesiredGpu:
        return DesiredGpu(self.gpu.address, vgpus, **more)

    async def decide(self, desired: DesiredGpu) -> Decision:
        return plan_layout(desired, await self.look())

    async def have(self, desired: DesiredGpu) -> list[Plan]:
        """Reach a desired state; the plans that it took."""
        plans: list[Plan] = []
        while not isinstance(decision := await self.decide(desired), Satisfied):
            assert isinstance(decision, Plan), decision
            assert len(plans) < MOST_STAGES
            await execute(self.hardware, decision, actor="test", reason="contract", limits=NO_WAIT)
            plans.append(decision)
        assert self.carried() == Counter(dict(desired.vgpus))
        return plans

    async def refused(self, desired: DesiredGpu) -> list[str]:
        decision = await self.decide(desired)
        assert isinstance(decision, tuple), decision
        assert all(isinstance(one, Refusal) and one.words for one in decision)
        return [one.reason for one in decision]

    def carried(self) -> Counter[str]:
        vgpus = (one.configured for one in self.gpu.functions())
        return Counter(vgpu.type_name for vgpu in vgpus if vgpu)

    def where(self, name: str) -> list[int]:
        functions = enumerate(self.gpu.functions())
        return [at for at, one in functions if one.configured and one.configured.type_name == name]


@pytest.fixture
def card(gpu: Any, tmp_path: Path) -> Card:
    return Card(gpu, tmp_path)


async def test_two_vgpus_are_made_on_the_first_functions(card: Card) -> None:
    name = card.gpu.profile("-4Q").name

    plans = await card.have(card.desired((name, 2)))

    assert [len(plan.steps) for plan in plans] == [2]
    assert card.where(name) == [0, 1]


async def test_a_card_without_functions_gets_them_and_then_its_vgpus(card: Card) -> None:
    name = card.gpu.profile("-4Q").name
    await card.gpu.switch(on=False)
    assert card.gpu.functions() == ()

    first, second = await card.have(card.desired((name, 2)))

    assert [type(step) for step in first.steps] == [SwitchGpuVfs]
    assert first.then == (f"configure {several(name, 2)}",)
    assert len(second.steps) == 2
    assert second.then == ()


async def test_a_desired_state_changes_only_what_differs(card: Card) -> None:
    name, other = card.gpu.profile("-4Q").name, card.gpu.profile("-4A").name
    await card.have(card.desired((name, 3)))
    before = card.gpu.functions()

    (plan,) = await card.have(card.desired((name, 2), (other, 1)))

    assert len(plan.steps) == 2
    assert [one.configured for one in card.gpu.functions()[:2]] == [
        one.configured for one in before[:2]
    ]


async def test_another_size_takes_the_place_of_one_that_is_not_in_use(card: Card) -> None:
    small, large = card.gpu.profile("-4Q").name, card.gpu.profile("-8Q").name
    await card.have(card.desired((small, 3)))

    await card.have(card.desired((large, 2)))

    await card.have(card.desired())


async def test_a_full_card_is_full_and_one_more_is_refused(card: Card) -> None:
    name = card.gpu.profile("-4Q").name
    fits = card.gpu.memory_gib // 4

    assert await card.refused(card.desired((name, fits + 1))) == ["LayoutDoesNotFit"]
    await card.have(card.desired((name, fits)))

    assert {one.creatable for one in card.gpu.functions()} == {()}


async def test_a_vgpu_that_a_vm_holds_stays_whatever_is_desired(card: Card) -> None:
    small, large = card.gpu.profile("-4Q").name, card.gpu.profile("-8Q").name
    await card.have(card.desired((small, 2)))
    held = card.gpu.functions()[1]
    holder = card.gpu.machine.hold(*card.gpu.vgpu_node(held))

    assert await card.refused(card.desired((large, 1))) == ["DeviceInUse"]
    assert await card.refused(card.desired()) == ["DeviceInUse"]
    await card.have(card.desired((small, 1)))
    assert card.where(small) == [1]

    holder.release()
    await card.have(card.desired((large, 1)))


async def test_mixed_sizes_share_a_card_where_the_desired_state_says_so(card: Card) -> None:
    small, large = card.gpu.profile("-4Q").name, card.gpu.profile("-8Q").name
    both = ((large, 1), (small, 2))
    await card.have(card.desired((small, 1)))
    assert await card.refused(card.desired(*both)) == ["SizesMixed"]

    (plan,) = await card.have(card.desired(*both, mixed_size=True))

    assert SetMixedSize(card.gpu.address, enabled=True) in plan.steps
    (back,) = await card.have(card.desired((small, 2)))
    assert SetMixedSize(card.gpu.address, enabled=False) in back.steps


async def test_switching_the_functions_clears_the_mode_and_a_desired_state_sets_it_again(
    card: Card,
) -> None:
    small, large = card.gpu.profile("-4Q").name, card.gpu.profile("-8Q").name
    desired = card.desired((large, 1), (small, 1), mixed_size=True)
    await card.have(desired)
    await card.have(card.desired(mixed_size=True))
    await card.gpu.switch(on=False)

    first, second = await card.have(desired)

    assert first.then[0] == "allow vGPUs of mixed sizes"
    assert second.steps[0] == SetMixedSize(card.gpu.address, enabled=True)
    await card.have(card.desired())


async def test_parameters_reach_every_vgpu(card: Card) -> None:
    name = card.gpu.profile("-4Q").name
    await card.have(card.desired((name, 1)))

    (plan,) = await card.have(card.desired((name, 2), parameters="frame_rate_limiter=0"))

    assert len(plan.steps) == 3
    situation = await card.look()
    assert sorted(situation.parameters.values()) == ["frame_rate_limiter=0"] * 2


async def test_a_profile_of_another_card_is_unknown(card: Card) -> None:
    assert await card.refused(card.desired(("NVIDIA Z99-4Q", 1))) == ["ProfileNotOffered"]
