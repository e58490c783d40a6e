"""Helm upgrades Laneway while users work, and brings the old version back.

Helm changes the objects first; then the pods are replaced one by one, as Deployments and DaemonSets
do. No allowed request is refused in between, and no device is touched that no user touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterator

import pytest

from laneway.core.keys import ANNOTATION_ALLOCATION
from laneway.sim.changes import Change
from support.accounts import AGENT, WEBHOOK
from support.chart import render
from support.skew.cluster import Cluster, Part
from support.skew.trees import Tree
from support.skew.users import Users
from support.skew.writes import CONFIGURATIONS, Json, Write, undone

PROFILE = "NVIDIA A2-4Q"
VGPU = "nvidia.com/NVIDIA_A2-4Q"
VGPUS = [f"node1-00000800{number}" for number in (4, 5, 6, 7)]
SPARE = VGPUS[-1]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NEW_KINDS = ("hostpolicies.devices.harvesterhci.io", "hostpreparations.devices.harvesterhci.io")
"""The previous version does not have them."""
FUNCTION, ADDRESS = "node1-000004001", "0000:04:00.1"


def test_no_webhook_is_renamed(old: Tree, new: Tree) -> None:
    """Under another name an entry is a new one, which the API server cannot ask at first."""
    before, now = (set(entries(tree)) for tree in (old, new))
    assert before <= now


def entries(tree: Tree) -> Iterator[tuple[str, str]]:
    for found in render(chart=tree.chart):
        for webhook in found.get("webhooks", ()):
            yield found["kind"], webhook["name"]


@pytest.mark.realapi
@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_helm_upgrades_and_rolls_back_while_users_work(
    mixed: Cluster, old: Tree, new: Tree
) -> None:
    world, users = mixed.world, Users(mixed.world)
    changes: list[Change] = []
    (await mixed.node("node1", "a2")).host.record_changes(changes.append)
    await mixed.install(old)
    async with mixed.writes.watching():
        await mixed.start(manager=old, webhook=old, node1=old)
        for name in VGPUS:
            await world.vgpu(name, PROFILE)
        await world.allocatable("node1", VGPU, len(VGPUS))
        await world.make_vm("standing", gpus=[VGPU])
        await world.running("standing")
        opened, began = await world.opened("standing"), len(mixed.writes.seen)

        cycles = (users.claims(FUNCTION), users.vms("cycle", VGPU))
        async with users.working(users.patches("standing"), *users.trials(SPARE, VGPU)):
            for step in (mixed.upgrade(new), *replacing(mixed, new)):
                await users.meanwhile(step, *cycles)
            for step in (mixed.rollback(), *replacing(mixed, old)):
                await users.meanwhile(step, *cycles)

        assert not users.refused
        assert await world.opened("standing") == opened
        await mixed.writes.rest()
        mixed.check()
        for name in NEW_KINDS:
            await mixed.client.raw(f"{DEFINITIONS}/{name}")
        written_once(mixed, began)
        claims = users.done["claim"]
        # A claim's only device is permitted and no longer permitted; all else stays as it was.
        kubevirts = mixed.writes.of("kubevirts", since=began)
        assert len(kubevirts) <= 2 * claims
        assert Counter(change.path for change in changes) == hardware(claims)


def replacing(mixed: Cluster, tree: Tree) -> list[Awaitable[None]]:
    """Each process is to be replaced by one of this version."""
    return [replaced(mixed, part, tree) for part in mixed.parts if not part.ended]


async def replaced(mixed: Cluster, part: Part, tree: Tree) -> None:
    """As a Deployment does it, and a DaemonSet: there only one agent runs on a node."""
    if part.component == AGENT:
        await mixed.end(part)
        await mixed.agent(tree, "node1")
    elif part.component == WEBHOOK:
        await mixed.webhook(tree)
        await mixed.end(part)
    else:
        successor = await mixed.manager(tree)
        await mixed.end(part)
        await mixed.leader(successor)


def written_once(mixed: Cluster, began: int) -> None:
    """No version wrote again what another had written, or back."""
    shared = ("customresourcedefinitions", *CONFIGURATIONS)
    claims = mixed.writes.of("pcideviceclaims", since=began)
    vms = mixed.writes.of("virtualmachines", since=began)
    assert not list(undone(claims))
    assert not list(undone(vms, lambda vm: {"devices": annotations(vm).get(ANNOTATION_ALLOCATION)}))
    # Helm and the new manager change these, and Helm and the old manager change them back.
    writes = mixed.writes.of(*shared, since=began)
    assert "DELETED" not in {write.type for write in writes}  # no version takes a kind away
    counted = Counter(write.name for write in writes if write.name not in NEW_KINDS)
    # A webhook that Helm adds has no authority yet; the manager writes it there, once.
    completed = Counter(write.name for write in writes if any(map(lacks_authority, hooks(write))))
    assert counted == Counter(dict.fromkeys(counted, 2)) + completed


def hooks(write: Write) -> list[Json]:
    found: list[Json] = write.object.get("webhooks", [])
    return found


def lacks_authority(hook: Json) -> bool:
    return not hook["clientConfig"].get("caBundle")


def annotations(obj: Json) -> Json:
    return obj["metadata"].get("annotations") or {}


def hardware(claims: int) -> Counter[str]:
    """Each vGPU is created once, and each claim takes the function and returns it."""
    device, drivers = f"/sys/bus/pci/devices/{ADDRESS}", "/sys/bus/pci/drivers"
    once = [f"{drivers}/igb/unbind", f"{drivers}/vfio-pci/bind", f"{drivers}/vfio-pci/unbind"]
    once += [f"{device}/driver_override"] * 2
    once += [f"{device}/reset", "/dev/kmsg", "/sys/bus/pci/drivers_probe"]
    functions = [f"/sys/bus/pci/devices/0000:08:00.{number}" for number in (4, 5, 6, 7)]
    created = [f"{one}/mdev_supported_types/nvidia-746/create" for one in functions]
    return Counter(created) + Counter({one: claims * n for one, n in Counter(once).items()})
