"""Two nodes whose GPU is half taken: a vGPU of the whole GPU fits once one VM has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kapilite.credentials import kubeconfig
from laneway.api import PCIDeviceClaim, SRIOVGPUDevice, VGPUDevice, find_condition
from laneway.changes.moving.all_moves import Result, carry_out
from laneway.changes.moving.work import MovesListener
from laneway.cli.planning.moving import work_of
from laneway.core.fleet.moves import Moves, least_moves
from laneway.kube.config import load
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import Resource, served
from laneway.simcluster.kubevirt.migrating import GATE_VGPU
from laneway.simcluster.objects import Node
from support.layouts import carried, make, of
from support.worlds import NAMESPACE, SimNode, World

Q8, Q16 = "NVIDIA A2-8Q", "NVIDIA A2-16Q"
WANTED = {Q16: 1}
RESOURCE = "nvidia.com/NVIDIA_A2-8Q"
RBAC = "rbac.authorization.k8s.io"
RULE = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
ON_1, ON_2 = "node1-000008004", "node2-000008004"


async def half_full(
    world: World, spec: str = "a2-vfio", *, layouts: bool = False, shared: bool = False
) -> list[SimNode]:
    """node1 and node2: each GPU has one vGPU of half its memory, and a VM, `on-NODE`, has it.

    `layouts`: they are of layouts of the GPUs, and not of VGPUDevices. `shared`: of one for both.
    """
    if shared:
        names = ["node1-000008000", "node2-000008000"]
        await make(world, "both", gpuSelector={"names": names}, vgpus=of(A2_8Q=1))
    found = []
    for node, vgpu in (("node1", ON_1), ("node2", ON_2)):
        found.append(await world.add(node, spec))
        if layouts:
            gpu = f"{node}-000008000"
            await make(world, gpu, gpuSelector={"names": [gpu]}, vgpus=of(A2_8Q=1))
        elif not shared:
            await world.vgpu(vgpu, Q8)
        await world.allocatable(node, RESOURCE, 1)
        await _measured(world, found[-1])
        await world.make_vm(f"on-{node}", gpus=[RESOURCE])
        await world.running(f"on-{node}")
    return found


async def migrating_vgpus(world: World) -> None:
    """Have KubeVirt migrate VMs with a vGPU on a mediated device."""
    gates = {"featureGates": ["HostDevices", "GPU", GATE_VGPU]}
    body = {"spec": {"configuration": {"developerConfiguration": gates}}}
    await world.client.patch(KUBEVIRTS, "kubevirt", body, "harvester-system")


async def _measured(world: World, node: SimNode) -> None:
    """What a migration depends on: agents ask the driver now and then."""
    assert node.agent is not None
    await node.agent.measuring.measure()
    gpu = f"{node.name}-000008000"
    await world.until(served(SRIOVGPUDevice), gpu, lambda one: one.status.ecc_mode == "Enabled")


def profiles(node: SimNode) -> list[str]:
    """The profiles that the GPU of a node carries."""
    return [name for name, count in carried(node.host).items() for _ in range(count)]


async def reserved(
    world: World, vgpu: str, kind: type[PCIDeviceClaim | VGPUDevice] = PCIDeviceClaim
) -> None:
    """Wait until a vGPU that a VM had is free for it again: its agent reports that in two steps.

    `kind`: where it does; a mediated device has no claim.
    """

    def is_free(device: PCIDeviceClaim | VGPUDevice) -> bool:
        said = find_condition(device.status.conditions, "Advertised")
        return device.status.allocation is None and said is not None and said.status == "True"

    await world.until(served(kind), vgpu, is_free)


class Hooked(MovesListener):
    """Calls once where a move tells certain words, and goes on when that is done."""

    def __init__(self, words: str, call: Callable[[], Awaitable[object]]) -> None:
        self.told: list[str] = []
        self._words = words
        self._call = call
        self._called: asyncio.Future[object] | None = None

    def progress(self, words: str) -> None:
        self.told.append(words)
        if self._words in words and self._called is None:
            self._called = asyncio.ensure_future(self._call())

    async def done(self) -> None:
        """That it was called, and has worked."""
        assert self._called is not None, self.told
        await self._called


async def proposed(world: World, *, restart: bool = False) -> Moves:
    """The moves after which a vGPU of a whole GPU fits; there is one."""
    seen = await work_of(world.client, 60, MovesListener()).look()
    found = least_moves(seen.fleet, WANTED, restart=restart)
    assert [(move.vm, move.target) for move in found.moves] == [("default/on-node1", "node2")]
    return found


async def carried_out(
    world: World, found: Moves, listener: MovesListener | None = None, seconds: int = 60
) -> Result:
    """What comes of moves."""
    work = work_of(world.client, seconds, listener or MovesListener())
    return await carry_out(work, found, WANTED)


async def reading(world: World, folder: Path, rule: Mapping[str, list[str]] = RULE) -> str:
    """The kubeconfig of a user who may read everything."""
    client = world.client
    account = _kind("", "serviceaccounts", "ServiceAccount", namespaced=True)
    await client.create(account, {"metadata": {"name": "reader"}}, NAMESPACE)
    await client.create(
        _kind(RBAC, "clusterroles", "ClusterRole"),
        {"metadata": {"name": "reader"}, "rules": [rule]},
    )
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "reader"},
        "subjects": [subject],
    }
    await client.create(_kind(RBAC, "clusterrolebindings", "ClusterRoleBinding"), binding)
    path = f"{account.path(NAMESPACE, 'reader')}/token"
    answer = msgspec.json.decode(await client.call("POST", path, None, {"spec": {}}))
    cluster = load(str(folder / "kubeconfig")).cluster
    assert cluster.ca is not None
    found = str(folder / "reader")
    kubeconfig.write(
        found,
        server=cluster.server,
        ca_pem=cluster.ca.read(),
        token=answer["status"]["token"],
    )
    return found


def _kind(group: str, plural: str, name: str, *, namespaced: bool = False) -> Resource[Any]:
    return Resource(group, "v1", plural, namespaced, Node, name)
