"""What is said to fit still is what the driver takes, whatever was made and removed before.

On a simulated host `test_capacity_laws.py` tries many stories; here is one for every machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.plan import Plan, Satisfied, SetVgpuType
from laneway.core.vgpu.capacity import room, still_fits
from laneway.host.plans.execute import Limits, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.capacity import as_many_fit, card, offered, order_works, sizes
from support.machines import SimulatedMachine, hardware

RIG = bool(os.environ.get("LANEWAY_RIG"))
NO_WAIT = Limits(unbind_lock_seconds=0.0, settle_seconds=0.0, poll_seconds=0.0)

MAKE, REMOVE = True, False


@pytest.mark.parametrize("mixed", [False, True], ids=["same-size", "mixed-size"])
async def test_as_many_fit_as_the_driver_takes(gpu: Any, mixed: bool) -> None:
    async with sizes(gpu, mixed=mixed):
        as_many_fit(gpu, [(MAKE, 7), (MAKE, 34), (REMOVE, 0), (MAKE, 12)], mixed=mixed)


async def test_an_order_that_is_said_to_work_works(gpu: Any) -> None:
    async with sizes(gpu, mixed=True):
        names = offered(gpu)
        order_works(gpu, [names[0], names[-1], names[len(names) // 2]])


@pytest.mark.skipif(RIG, reason="the rig's card has no MIG mode")
@pytest.mark.parametrize(
    ("model", "desired"),
    [
        ("a100", (("GRID A100-2-10C", 2), ("GRID A100-1-5C", 1))),
        *(
            pytest.param(
                "rtx-pro-6000",
                ((f"NVIDIA RTX Pro 6000 Blackwell DC-{profile}", count),),
                marks=pytest.mark.slow,
            )
            for profile, count in (("1-2Q", 3), ("2-12Q", 2))
        ),
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
        gpu = card(inventory, address)
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
