"""What is said to fit still is what the driver takes, whatever was made and removed before."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan, Satisfied, SetVgpuType
from laneway.core.programs import NVIDIA_SMI
from laneway.core.vgpu.capacity import room, still_fits
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.placement import arrange
from laneway.host.plans.execute import Limits, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.examples import many
from support.machines import SimulatedMachine, hardware

RIG = bool(os.environ.get("LANEWAY_RIG"))
NO_WAIT = Limits(unbind_lock_seconds=0.0, settle_seconds=0.0, poll_seconds=0.0)

# A story: a number that chooses what is made, or the place of what is removed.
STORIES = st.lists(st.tuples(st.booleans(), st.integers(0, 63)), max_size=4 if RIG else 8)
EXAMPLES = settings(
    max_examples=2 if RIG else many(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=(Phase.explicit, Phase.generate) if RIG else tuple(Phase),
)


async def _mix(gpu: Any, *, on: bool) -> None:
    argv = [NVIDIA_SMI, "vgpu", "-i", str(gpu.address), "-shm", "1" if on else "0"]
    done = await gpu.machine.executor.run(argv, seconds=60)
    assert done.status == 0, done.output


def _card(look: Inventory, address: PciAddress) -> PciFunction:
    return next(one for one in look.functions if one.address == address)


def _free(gpu: Any) -> list[VgpuFunction]:
    return [one for one in gpu.functions() if one.configured is None]


def _fill(gpu: Any, name: str) -> int:
    """Make vGPUs of a profile until there is no room, and take them back."""
    made = []
    while function := next(
        (one for one in _free(gpu) if any(kind.name == name for kind in one.creatable)), None
    ):
        kind = next(kind for kind in function.creatable if kind.name == name)
        gpu.create(function, kind)
        made.append(function)
    for function in made:
        gpu.remove(function)
    return len(made)


def _empty(gpu: Any) -> None:
    for function in gpu.functions():
        if function.configured:
            gpu.remove(function)


@pytest.mark.parametrize("mixed", [False, True], ids=["same-size", "mixed-size"])
async def test_as_many_fit_as_the_driver_takes(gpu: Any, mixed: bool) -> None:
    await _mix(gpu, on=mixed)
    modes = GpuModes(mixed_size=mixed)

    @given(story=STORIES)
    @EXAMPLES
    def tell(story: list[tuple[bool, int]]) -> None:
        removed = False
        try:
            for make, number in story:
                carried = [one for one in gpu.functions() if one.configured]
                offered = [(one, kind) for one in _free(gpu) for kind in one.creatable]
                if make and offered:
                    gpu.create(*offered[number % len(offered)])
                elif carried:
                    gpu.remove(carried[number % len(carried)])
                    removed = True
            look = gpu.look()
            fits = still_fits(_card(look, gpu.address), gpu.functions(), modes)
            names = sorted(fits)
            chosen = names[sum(number for _, number in story) % len(names)]
            assert {name for name, count in fits.items() if count} == {
                kind.name for one in _free(gpu) for kind in one.creatable
            }
            # A mediated device tells its place only once it is used: of gaps between such nobody
            # knows, and fewer may fit than is said.
            places = [one.configured.placement for one in gpu.functions() if one.configured]
            fewest = 0 if mixed and removed and None in places else fits[chosen]
            assert fewest <= _fill(gpu, chosen) <= fits[chosen], chosen
        finally:
            _empty(gpu)

    try:
        tell()
    finally:
        await _mix(gpu, on=False)


async def test_an_order_that_is_said_to_work_works(gpu: Any) -> None:
    """In mixed-size mode: what `arrange` says is what the driver does, place by place."""
    await _mix(gpu, on=True)
    names = sorted({kind.name for one in gpu.functions() for kind in one.creatable})
    card = card_of(_card(gpu.look(), gpu.address).device, names)

    @given(wanted=st.lists(st.sampled_from(names), min_size=1, max_size=3 if RIG else 8))
    @EXAMPLES
    def tell(wanted: list[str]) -> None:
        order = arrange(card, (), Counter(wanted), mixed=True)
        try:
            for placed in order or ():
                function = _free(gpu)[0]
                kind = next(one for one in function.creatable if one.name == placed.profile)
                gpu.create(function, kind)
            found = [one.configured for one in gpu.functions() if one.configured]
            if any(one.placement is not None for one in found):
                there = sorted((one.type_name, one.placement) for one in found)
                assert there == sorted((one.profile, one.start) for one in order or ())
            if order is None:
                # Not the order by size either, nor any that its own story came in.
                assert not _takes(gpu, wanted)
        finally:
            _empty(gpu)

    try:
        tell()
    finally:
        await _mix(gpu, on=False)


def _takes(gpu: Any, wanted: list[str]) -> bool:
    for name in wanted:
        free = _free(gpu)
        kinds = [kind for kind in free[0].creatable if kind.name == name] if free else []
        if not kinds:
            return False
        gpu.create(free[0], kinds[0])
    return True


@pytest.mark.skipif(RIG, reason="the rig's card has no MIG mode")
@pytest.mark.parametrize(
    ("model", "desired"),
    [
        ("a100", (("GRID A100-2-10C", 2), ("GRID A100-1-5C", 1))),
        ("rtx-pro-6000", (("NVIDIA RTX Pro 6000 Blackwell DC-1-2Q", 3),)),
        ("rtx-pro-6000", (("NVIDIA RTX Pro 6000 Blackwell DC-2-12Q", 2),)),
    ],
)
async def test_gpu_instances_take_as_many_as_is_said(
    model: str, desired: tuple[tuple[str, int], ...], tmp_path: Path
) -> None:
    machine = SimulatedMachine(build(Spec(model), "node"))
    hands = hardware(machine, tmp_path)
    address = next(one.address for one in scan(machine.host).functions if one.sriov_gpu)
    while isinstance(
        decision := plan_layout(
            DesiredGpu(address, desired), await observe(hands, "node", [address])
        ),
        Plan,
    ):
        await execute(hands, decision, actor="test", reason="capacity", limits=NO_WAIT)
    assert isinstance(decision, Satisfied), decision

    async def count() -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
        situation = await observe(hands, "node", [address])
        inventory = situation.inventory
        gpu = _card(inventory, address)
        functions = [one for one in inventory.vgpus if one.parent == address]
        modes = situation.gpus[address]
        fits = still_fits(gpu, functions, modes)
        return fits, {name: room(name, gpu, functions, modes) for name in fits}

    fits, rooms = await count()
    for name, there in desired:
        assert rooms[name] == (fits[name], fits[name] + there)
    for name, predicted in fits.items():
        made = []
        while True:
            inventory = (await observe(hands, "node", [address])).inventory
            free = (
                (one, kind)
                for one in inventory.vgpus
                if one.parent == address and one.configured is None
                for kind in one.creatable
                if kind.name == name
            )
            found = next(free, None)
            if found is None:
                break
            function, kind = found
            step = SetVgpuType(function.address, kind.id, "0", kind.name)
            await execute(hands, Plan((step,)), actor="test", reason="fill", limits=NO_WAIT)
            made.append((function, kind))
        assert len(made) == predicted, name
        for function, kind in made:
            step = SetVgpuType(function.address, "0", kind.id, kind.name)
            await execute(hands, Plan((step,)), actor="test", reason="clear", limits=NO_WAIT)
    machine.close()
