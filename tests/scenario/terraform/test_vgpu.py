"""`laneway_vgpu`: created, changed in place, replaced, drifted, imported, refused, destroyed."""

from __future__ import annotations

import pytest

from support.terraform import Terraform
from support.worlds import World

pytestmark = pytest.mark.timeout(180)
FIRST, SECOND = "node1-000008004", "node1-000008005"


def vgpu(profile: str = "A2-4Q", device: str = FIRST) -> str:
    return f'resource "laneway_vgpu" "a" {{\n device = "{device}"\n profile = "{profile}"\n}}\n'


async def test_a_vgpu_from_its_first_apply_to_its_end(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    planned = await terraform.plan(vgpu())
    assert "Plan: 1 to add" in planned.out
    await terraform.apply()
    [state] = (await terraform.state()).values()
    assert state["id"] == FIRST
    assert state["resource_name"] == "nvidia.com/NVIDIA_A2-4Q"
    await terraform.settled()
