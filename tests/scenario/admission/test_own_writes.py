"""What Laneway's own parts write is judged as well, and what is refused them says so."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import VGPUDevice, VGPULayout
from laneway.controllers.timing import Timing
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.worlds import World

VGPU, OTHER = "node1-000008004", "node1-000008005"
SMALL = "nvidia.com/NVIDIA_A2-8Q"


def layout(profile: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPULayout",
        "metadata": {"name": "desktops"},
        "spec": {
            "takeOver": True,
            "whenPossible": True,
            "vgpus": [{"profile": profile, "count": count}],
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("kept", [VGPU, OTHER])
async def test_a_layout_removes_another_vgpu_than_one_that_a_vm_at_rest_names(
    world: World, admin: Kubectl, make_vm: Any, kept: str
) -> None:
    world.cluster.timing = Timing(retry=0.2)
    await world.add("node1", "a2")
    for name in (VGPU, OTHER):
        await world.vgpu(name, "NVIDIA A2-8Q")
    await admin.apply(make_vm("desk", gpus=[(kept, SMALL)]))
    await admin.apply(layout("NVIDIA A2-8Q", 1))
    await world.until(
        served(VGPULayout), "desktops", lambda one: [g.state for g in one.status.gpus] == ["Done"]
    )
    [goes] = {VGPU, OTHER} - {kept}

    def is_off(one: Any) -> bool:
        return not one.spec.enabled and not one.status.vgpu_status

    await world.until(served(VGPUDevice), goes, is_off)
    assert (await admin.get("vgpudevice", kept))["spec"]["enabled"] is True
    # As much is put back where the other one is enabled again past admission.
    again = {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-8Q"}}
    await world.cluster.own.patch(served(VGPUDevice), goes, again)
    await world.until(served(VGPUDevice), goes, lambda one: bool(one.status.vgpu_status))
    await world.until(served(VGPUDevice), goes, is_off)
    assert (await admin.get("vgpudevice", kept))["spec"]["enabled"] is True


@pytest.mark.slow
async def test_a_layout_takes_no_device_that_a_vm_at_rest_names(
    world: World, admin: Kubectl, make_vm: Any
) -> None:
    world.cluster.timing = Timing(retry=0.2)
    await world.add("node1", "a2")
    await world.vgpu(VGPU, "NVIDIA A2-8Q")
    await admin.apply(make_vm("desk", gpus=[(VGPU, SMALL)]))
    await admin.apply(layout("NVIDIA A2-2Q", 4))

    def refused(one: Any) -> bool:
        return any(gpu.reason == "UpdateRejected" for gpu in one.status.gpus)

    stored = await world.until(served(VGPULayout), "desktops", refused)
    [gpu] = stored.status.gpus
    assert gpu.message.startswith(
        f"VGPUDevice {VGPU} cannot be changed as the layout requests: device {VGPU} is in use with "
        "VM default/desk"
    )
    assert (await admin.get("vgpudevice", VGPU))["spec"]["enabled"] is True

    await world.delete_vm("desk")
    await world.until(
        served(VGPULayout), "desktops", lambda one: [g.state for g in one.status.gpus] == ["Done"]
    )
