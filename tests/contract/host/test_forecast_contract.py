"""What is said to fit after a layout fits once the layout is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.layout.forecast import fits_afterwards
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.plan import Plan
from laneway.core.programs import SRIOV_MANAGE
from laneway.core.situation import Situation
from laneway.core.vgpu.capacity import still_fits
from laneway.host.plans.execute import Limits, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.machines import SimulatedMachine, hardware

NO_WAIT = Limits(unbind_lock_seconds=0.0, settle_seconds=0.0, poll_seconds=0.0)
L40S = "NVIDIA L40S-"


@pytest.mark.parametrize("switched_on", [False, True], ids=["without functions", "with functions"])
@pytest.mark.parametrize(
    "layouts",
    [
        [((f"{L40S}8Q", 2),)],
        [((f"{L40S}4Q", 3),), ((f"{L40S}4Q", 1), (f"{L40S}4A", 2))],
        [((f"{L40S}24Q", 1), (f"{L40S}8Q", 1)), ((f"{L40S}24Q", 1), (f"{L40S}4Q", 3))],
        [((f"{L40S}4Q", 2), (f"{L40S}1Q", 3)), ((f"{L40S}8A", 1), (f"{L40S}1Q", 2))],
        [((f"{L40S}48Q", 1),), ()],
    ],
)
async def test_the_forecast_comes_true(
    layouts: list[tuple[tuple[str, int], ...]], switched_on: bool, tmp_path: Path
) -> None:
    machine = SimulatedMachine(build(Spec("l40s"), "node"))
    hands = hardware(machine, tmp_path)
    empty = scan(machine.host)
    address = next(one.address for one in empty.functions if one.sriov_gpu)
    offered = {kind.name for one in empty.vgpus for kind in one.creatable}
    if not switched_on:
        done = await machine.executor.run([SRIOV_MANAGE, "-d", str(address)], seconds=60)
        assert done.status == 0

    async def look() -> Situation:
        return await observe(hands, "node", [address])

    for vgpus in layouts:
        mixed = len({name.rstrip("ACQ") for name, _ in vgpus}) > 1
        desired = DesiredGpu(address, vgpus, mixed_size=mixed)
        situation = await look()
        gpu = next(one for one in situation.inventory.functions if one.address == address)
        forecast = fits_afterwards(desired, gpu, situation)

        while isinstance(decision := plan_layout(desired, await look()), Plan):
            await execute(hands, decision, actor="test", reason="forecast", limits=NO_WAIT)

        situation = await look()
        functions = [one for one in situation.inventory.vgpus if one.parent == address]
        fits = still_fits(gpu, functions, situation.gpus[address])
        assert {name: forecast[name] for name in offered} == {name: fits[name] for name in offered}
    machine.close()


async def test_of_a_layout_that_does_not_fit_nothing_is_foretold(tmp_path: Path) -> None:
    machine = SimulatedMachine(build(Spec("l40s"), "node"))
    hands = hardware(machine, tmp_path)
    gpu = next(one for one in scan(machine.host).functions if one.sriov_gpu)
    situation = await observe(hands, "node", [gpu.address])
    desired = DesiredGpu(gpu.address, ((f"{L40S}48Q", 2),))
    assert fits_afterwards(desired, gpu, situation) == {}
    machine.close()
