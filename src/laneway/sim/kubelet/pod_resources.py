"""Allocations, as kubelets report them at `pod-resources/kubelet.sock`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from laneway.api.kubelet.podresources_grpc import PodResourcesListerBase
from laneway.api.kubelet.podresources_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)
from laneway.sim.kubelet.checkpoint import AdmittedPod
from laneway.sim.kubelet.faults import Faults, behave
from laneway.sim.kubelet.sockets import Service

if TYPE_CHECKING:
    from grpclib.server import Stream


class PodResourcesLister(PodResourcesListerBase):
    """The service; `pods` and `healthy` (ids by resource) say what is so now."""

    def __init__(
        self,
        pods: Callable[[], Iterable[AdmittedPod]],
        healthy: Callable[[], Mapping[str, Iterable[str]]],
        faults: Faults,
    ) -> None:
        self._pods = pods
        self._healthy = healthy
        self._faults = faults
        self.service = Service(self)

    async def List(self, stream: Stream[ListPodResourcesRequest, ListPodResourcesResponse]) -> None:
        await stream.recv_message()
        await behave(self._faults.pod_resources, self.service.disconnect)
        known = self._pods()
        if self._faults.unreported_pods:
            self._faults.unreported_pods -= 1
            known = ()
        pods = [
            PodResources(
                name=pod.name,
                namespace=pod.namespace,
                containers=[
                    ContainerResources(
                        name=container,
                        devices=_one_by_one({name: one.ids for name, one in given.items()}),
                    )
                    for container, given in pod.containers.items()
                ],
            )
            for pod in known
        ]
        await stream.send_message(ListPodResourcesResponse(pod_resources=pods))

    async def GetAllocatableResources(
        self, stream: Stream[AllocatableResourcesRequest, AllocatableResourcesResponse]
    ) -> None:
        await stream.recv_message()
        await behave(self._faults.pod_resources, self.service.disconnect)
        devices = _one_by_one(self._healthy())
        await stream.send_message(AllocatableResourcesResponse(devices=devices))


def _one_by_one(ids: Mapping[str, Iterable[str]]) -> list[ContainerDevices]:
    """Kubelets make an entry of every device, and repeat the resource's name in each."""
    return [
        ContainerDevices(resource_name=resource, device_ids=[one])
        for resource in sorted(ids)
        for one in sorted(ids[resource])
    ]
