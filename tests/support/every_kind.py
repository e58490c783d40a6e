"""A desired state of each kind, reached and left again: all that an agent writes on the way.

For servers that judge what an agent writes, by its rights and by policies.
"""

from __future__ import annotations

from typing import Any

from laneway.api import (
    MigConfiguration,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDeviceClaim,
    VGPULayout,
)
from laneway.kube.resource import served
from support.worlds import World

NODES = {"node3": "plain", "node4": "a2", "node5": "a100"}
CARD, STICK = "node3-ens4f1", "node3-0781-5583-001004"
A2, A100 = "node4-000008000", "node5-000017000"


async def every_kind(world: World) -> None:
    """On the nodes of `NODES`, which have their agents."""
    await virtual_functions(world)
    await usb(world)
    await layout(world)
    await instances(world)


async def virtual_functions(world: World) -> None:
    cards = served(SRIOVNetworkDevice)
    for count in (2, 0):
        await world.client.patch(cards, CARD, {"spec": {"numVFs": count}})
        await world.until(
            cards, CARD, lambda one, count=count: len(one.status.vf_addresses) == count
        )


async def usb(world: World) -> None:
    claims = served(USBDeviceClaim)
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "USBDeviceClaim",
        "metadata": {"name": STICK},
        "spec": {},
    }
    await world.client.create(claims, body)
    await world.until(claims, STICK, lambda one: _is(one, "Bound"))
    await world.client.delete(claims, STICK)
    await world.until(claims, STICK, lambda one: one is None)


async def layout(world: World) -> None:
    layouts, gpus = served(VGPULayout), served(SRIOVGPUDevice)
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPULayout",
        "metadata": {"name": "four"},
        "spec": {
            "nodeSelector": {"names": ["node4"]},
            "vgpus": [{"profile": "NVIDIA A2-4Q", "count": 4}],
        },
    }
    await world.client.create(layouts, body)
    await world.until(layouts, "four", lambda one: _is(one, "Ready"))
    await world.client.patch(layouts, "four", {"spec": {"vgpus": []}})
    await world.until(layouts, "four", lambda one: _is(one, "Ready"))
    await world.client.delete(layouts, "four")
    await world.client.patch(gpus, A2, {"spec": {"enabled": False}})
    await world.until(gpus, A2, lambda one: not one.status.vgpu_devices)


async def instances(world: World) -> None:
    configurations = served(MigConfiguration)
    await world.client.patch(
        served(SRIOVGPUDevice), A100, {"spec": {"enabled": False, "mode": "MIG"}}
    )
    found = await world.until(configurations, A100, lambda one: one is not None)
    for requested in (1, 0):
        profiles = [
            {"name": one.name, "id": one.id, "requested": requested * (one.name == "MIG 3g.20gb")}
            for one in found.spec.profile_spec
        ]
        spec = {"enabled": bool(requested), "profileSpec": profiles}
        await world.client.patch(configurations, A100, {"spec": spec})
        status = "synced" if requested else "disabled"
        await world.until(
            configurations, A100, lambda one, status=status: one.status.status == status
        )


def _is(obj: Any, condition: str) -> bool:
    return any(
        one.type == condition
        and one.status == "True"
        and one.observed_generation == obj.metadata.generation
        for one in obj.status.conditions
    )
