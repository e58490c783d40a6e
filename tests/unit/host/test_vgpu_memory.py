"""A card that is full of a type which only its driver knows by name."""

from __future__ import annotations

from pathlib import Path

from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.plan import Plan, Satisfied
from laneway.host.plans.execute import execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import build, parse_spec
from support.plans import BRIEF, hardware_of

WHOLE = "NVIDIA RTX Pro 6000 Blackwell DC-96Q"  # of which the catalogue knows no id


async def test_what_was_configured_is_known_again(tmp_path: Path) -> None:
    """Else it would be taken for another's, removed and made again, for ever."""
    hardware = hardware_of(build(parse_spec("rtx-pro-6000"), "node"), tmp_path)
    gpu = next(one for one in scan(hardware.host).functions if one.sriov_gpu).address
    desired = DesiredGpu(gpu, ((WHOLE, 1),))
    plan = plan_layout(desired, await observe(hardware, "node", [gpu]))
    assert isinstance(plan, Plan)

    await execute(hardware, plan, actor="test", reason="because", limits=BRIEF)

    assert not any(vgpu.creatable for vgpu in scan(hardware.host).vgpus if vgpu.parent == gpu)
    after = await observe(hardware_of(hardware.host, tmp_path), "node", [gpu])
    assert plan_layout(desired, after) == Satisfied()
