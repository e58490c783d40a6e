"""A node with a kubelet: pods that request devices get them, or report why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from laneway.api import VGPUDevice, find_condition
from laneway.core.keys import ANNOTATION_REQUESTERS
from laneway.core.requesters import User, written
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.pods import PODS
from laneway.kubelet.pod_resources import PodResources
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import Grant, PodRequest
from laneway.simcluster.kubevirt.install import install

SECONDS = 60.0
NODE = "node1"
NAMESPACE = "default"


class Node:
    """A node's kubelet, and what becomes of pods there."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster = cluster
        self.folder = str(folder)
        self.kubelet = Kubelet(self.folder)
        self._changed = asyncio.Event()
        self.lowest: dict[str, int] = {}
        """The least of each resource that was allocatable since `watch` was called."""
        self.kubelet.subscribe(self._note)

    def _note(self) -> None:
        for resource, number in self.kubelet.allocatable.items():
            self.lowest[resource] = min(self.lowest.get(resource, number), number)
        self._changed.set()

    def watch(self) -> None:
        """Remember from now on what there was at least."""
        self.lowest = dict(self.kubelet.allocatable)

    async def agent(self, host: Any) -> Any:
        """An agent that knows of the kubelet."""
        return await self.cluster.start_agent(NODE, host, kubelet=self.folder)

    async def allocatable(self, resource: str, number: int) -> None:
        """Wait until pods can get so many of a resource."""
        async with asyncio.timeout(SECONDS):
            while self.kubelet.allocatable.get(resource, 0) != number:
                self._changed.clear()
                await self._changed.wait()

    async def counted(self, resource: str, number: int) -> None:
        """Wait until the kubelet counts so many of a resource, whether pods can get them or not."""
        async with asyncio.timeout(SECONDS):
            while self.kubelet.capacity.get(resource, 0) != number:
                self._changed.clear()
                await self._changed.wait()

    async def pod(
        self, name: str, vm: str = "", *, sidecar: bool = False, **limits: int
    ) -> tuple[str, dict[str, Grant]]:
        """A pod that the kubelet has admitted; its uid and what its containers got.

        `sidecar`: an init container that runs on asks, and no other one.
        """
        resources = {key: str(value) for key, value in limits.items()}
        labels = {"kubevirt.io/created-by": f"uid-of-{vm}"} if vm else {}
        annotations = {ANNOTATION_REQUESTERS: written([User("kim")])}  # As admission notes it.
        annotations |= {"kubevirt.io/domain": vm} if vm else {}
        compute = {"name": "compute", "image": "launcher", "resources": {"limits": resources}}
        containers = {"containers": [compute]}
        if sidecar:
            containers = {
                "initContainers": [compute | {"restartPolicy": "Always"}],
                "containers": [{"name": "main", "image": "launcher"}],
            }
        created = await self.cluster.client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": labels,
                    "annotations": annotations,
                },
                "spec": {"nodeName": NODE, **containers},
            },
            NAMESPACE,
        )
        uid = created.metadata.uid
        request = PodRequest(
            uid=uid, namespace=NAMESPACE, name=name, containers={"compute": limits}
        )
        granted = await self.kubelet.admit(request)
        await self._phase(name, "Running")
        return uid, granted

    async def kubelet_says(self) -> set[tuple[str, str]]:
        """What pods have: resource and id."""
        return set(await PodResources(self.folder).owners())

    async def end(self, name: str, uid: str) -> None:
        """A pod ends, and is cleaned up after."""
        await self._phase(name, "Succeeded")
        self.kubelet.remove(uid)

    async def _phase(self, name: str, phase: str) -> None:
        await self.cluster.client.patch(
            PODS, name, {"status": {"phase": phase}}, NAMESPACE, subresource="status"
        )

    async def said(
        self, name: str, condition: str, reason: str, cls: type[Any] = VGPUDevice
    ) -> Any:
        """Wait until a condition of an object has a reason; gives the object."""

        def holds(obj: Any) -> bool:
            found = obj and find_condition(obj.status.conditions, condition)
            return bool(found) and found.reason == reason

        return await self.cluster.until(cls, name, holds)


@pytest.fixture
async def node(cluster: Any, tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(cluster, tmp_path / "kubelet")
    await node.kubelet.start()
    yield node
    await node.kubelet.stop()


class KubeVirt:
    """The cluster's KubeVirt, of which a test writes the lists itself."""

    def __init__(self, cluster: Any) -> None:
        self._client = cluster.client

    async def permit(self, **lists: Any) -> None:
        """Have just these entries."""
        permitted = {"pciHostDevices": [], "mediatedDevices": [], "usb": []} | lists
        body = {"spec": {"configuration": {"permittedHostDevices": permitted}}}
        await self._client.patch(KUBEVIRTS, "kubevirt", body, "harvester-system")


@pytest.fixture
async def kubevirt(kubevirt_installed: Path, cluster: Any) -> KubeVirt:
    """An installed KubeVirt that permits nothing."""
    await install(cluster.client)
    return KubeVirt(cluster)
