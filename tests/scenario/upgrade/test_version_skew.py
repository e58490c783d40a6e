"""Parts of two versions work together, as they do while an upgrade is under way or stuck.

A user sees the same as with one version: devices are published, claimed and given to VMs. At the
end the cluster comes to rest: no part undoes what another wrote.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.api import ObjectMeta, PCIDeviceClaim, VGPUDevice
from laneway.api.crds import crds
from laneway.kube.resource import Resource, served
from support.accounts import MANAGER
from support.skew.cluster import Cluster
from support.skew.trees import Tree
from support.skew.writes import CONFIGURATIONS, undone


class Definition(msgspec.Struct, frozen=True):
    """A definition, as far as it is compared."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


PROFILE = "NVIDIA A2-4Q"
VGPU = "nvidia.com/NVIDIA_A2-4Q"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"


async def story(mixed: Cluster, node: str) -> None:
    """A vGPU and a function of one node go to a VM, which starts, stops, and starts again."""
    world = mixed.world
    vgpu, function, vm = f"{node}-000008004", f"{node}-000004001", f"vm-{node}"
    await world.vgpu(vgpu, PROFILE)
    claim = await world.claim(function)
    assert claim.spec.user_name == "admin"
    await world.allocatable(node, VGPU, 1)
    await world.allocatable(node, NIC, 1)

    await world.make_vm(vm, host_devices=[NIC], gpus=[VGPU], node=node)
    assert (await world.running(vm)).status.node_name == node
    for kind, name in ((PCIDeviceClaim, function), (VGPUDevice, vgpu)):
        await world.until(served(kind), name, lambda one: holder(one) == vm)
    await world.stop_vm(vm)
    for kind, name in ((PCIDeviceClaim, function), (VGPUDevice, vgpu)):
        await world.until(served(kind), name, lambda one: holder(one) == "")
    await world.run_vm(vm, on=True)
    await world.running(vm)
    assert len(await world.opened(vm)) == 2


def is_known(crd: Any) -> bool:
    """Whether the previous version has the kind as well."""
    return not crd["spec"]["names"]["kind"].startswith("Host")


async def updated(mixed: Cluster) -> list[str]:
    """Which definitions are as today's version has them."""
    kind = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, Definition)
    known = [crd for crd in crds() if is_known(crd)]
    found = [(crd, await mixed.client.get(kind, crd["metadata"]["name"])) for crd in known]
    return [
        one.metadata.name for crd, one in found if one.spec["versions"] == crd["spec"]["versions"]
    ]


def holder(obj: object) -> str:
    allocation = obj.status.allocation  # type: ignore[attr-defined]
    return "" if allocation is None else str(allocation.virtual_machine)


async def settled(mixed: Cluster) -> None:
    """Nothing is written any more, was undone, or is complained about again and again."""
    await mixed.writes.rest()
    mixed.check()
    shared = ("customresourcedefinitions", "kubevirts", *CONFIGURATIONS)
    assert not list(undone(mixed.writes.of(*shared)))


@pytest.fixture
def versions(request: pytest.FixtureRequest, old: Tree, new: Tree) -> tuple[Tree, Tree]:
    """The agent's, and that of all else."""
    return (old, new) if request.param == "an old agent" else (new, old)


@pytest.mark.slow
@pytest.mark.parametrize("versions", ["an old agent", "a new agent"], indirect=True)
async def test_an_agent_works_with_the_other_version(
    mixed: Cluster, versions: tuple[Tree, Tree]
) -> None:
    agents, others = versions
    await mixed.node("node1", "a2")
    await mixed.install(others)
    async with mixed.writes.watching():
        await mixed.start(manager=others, webhook=others, node1=agents)
        await story(mixed, "node1")
        await settled(mixed)


@pytest.mark.realapi
@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_versions_change_one_by_one_and_the_leader_with_them(
    mixed: Cluster, old: Tree, new: Tree
) -> None:
    """Both webhooks are asked in turn; the definitions are those of the newest manager."""
    await mixed.node("node1", "a2")
    await mixed.node("node2", "a2")
    await mixed.install(old)
    async with mixed.writes.watching():
        await mixed.start(manager=old, webhook=old, node1=old, node2=new)
        await mixed.webhook(new)
        await story(mixed, "node1")
        [leader] = (part for part in mixed.parts if part.component == MANAGER)

        successor = await mixed.manager(new)
        straggler = await mixed.manager(old)  # it starts again, as a pod does whose node does
        await mixed.end(straggler)
        await mixed.end(leader)
        await mixed.leader(successor)
        await story(mixed, "node2")
        await mixed.writes.rest()
        mixed.check()
        # A kind that is new needs the rights of the new chart, which Helm would have applied first.
        known = [crd["metadata"]["name"] for crd in crds() if is_known(crd)]
        assert await updated(mixed) == known
