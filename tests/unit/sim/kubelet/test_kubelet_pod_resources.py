"""What a simulated kubelet tells of who has which device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from grpclib import GRPCError
from grpclib.exceptions import StreamTerminatedError

from laneway.api.kubelet.podresources_grpc import PodResourcesListerStub
from laneway.api.kubelet.podresources_pb2 import (
    AllocatableResourcesRequest,
    ListPodResourcesRequest,
)
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import PodRequest
from laneway.sim.kubelet.sockets import Dialled

GPU = "nvidia.com/GPU"

Until = Callable[[Kubelet, Callable[[], bool]], Awaitable[None]]
Start = Callable[..., Awaitable[Any]]


@pytest.fixture
async def asked(folder: Path, kubelet: Kubelet) -> AsyncIterator[PodResourcesListerStub]:
    """A connection to the kubelet."""
    async with Dialled(str(folder / "pod-resources"), "kubelet.sock", "localhost") as channel:
        yield PodResourcesListerStub(channel)


async def test_every_device_of_every_pod_is_reported_on_its_own(
    kubelet: Kubelet, plugins: Start, until: Until, asked: PodResourcesListerStub
) -> None:
    await plugins({"a": True, "b": True, "c": False})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})
    containers: dict[str, dict[str, int]] = {"compute": {GPU: 2}, "sidecar": {}}
    for uid, limits in (("1", containers), ("2", {"web": {}})):
        await kubelet.admit(
            PodRequest(uid=uid, namespace="default", name=f"pod{uid}", containers=limits)
        )
    pods = (await asked.List(ListPodResourcesRequest())).pod_resources
    reported = [
        (pod.namespace, pod.name, container.name, one.resource_name, list(one.device_ids))
        for pod in pods
        for container in pod.containers
        for one in container.devices
    ]
    assert reported == [
        ("default", "pod1", "compute", GPU, ["a"]),
        ("default", "pod1", "compute", GPU, ["b"]),
    ]
    assert [[c.name for c in pod.containers] for pod in pods] == [["compute", "sidecar"], ["web"]]
    answer = await asked.GetAllocatableResources(AllocatableResourcesRequest())
    assert [(one.resource_name, list(one.device_ids)) for one in answer.devices] == [
        (GPU, ["a"]),
        (GPU, ["b"]),
    ]
    kubelet.remove("1")
    pods = (await asked.List(ListPodResourcesRequest())).pod_resources
    assert [pod.name for pod in pods] == ["pod2"]


async def test_it_can_fail_in_every_way(kubelet: Kubelet, asked: PodResourcesListerStub) -> None:
    kubelet.faults.pod_resources = "refuse"
    with pytest.raises(GRPCError, match="takes no requests"):
        await asked.List(ListPodResourcesRequest())
    kubelet.faults.pod_resources = "hang"
    asking = asyncio.create_task(asked.List(ListPodResourcesRequest()))
    assert not (await asyncio.wait([asking], timeout=0.05))[0]
    kubelet.faults.pod_resources = "close"
    with pytest.raises(StreamTerminatedError):
        await asked.List(ListPodResourcesRequest())
    with pytest.raises(StreamTerminatedError):
        await asking
    kubelet.faults.pod_resources = "answer"
    assert not (await asked.List(ListPodResourcesRequest())).pod_resources
