"""Which container has which device, asked of the kubelet.

The kubelet lists pods that it admitted and that have not ended, so what it does not name is
released. Every call opens its own connection: it is made seldom, a connection to a local socket
costs nothing, and so there is nothing to mend after the kubelet was restarted.
"""

from __future__ import annotations

import asyncio
import os

from grpclib.client import Channel

from laneway.api.kubelet.podresources_grpc import PodResourcesListerStub
from laneway.api.kubelet.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from laneway.api.kubelet.sockets import KUBELET, within
from laneway.core.device_plugin.offer import Owner
from laneway.kubelet.errors import FAILURES, NONSENSE, KubeletError, in_words

_FOLDER = "pod-resources"
_SECONDS = 10.0


class PodResources:
    """The kubelet's list of devices and their pods."""

    def __init__(self, folder: str, *, seconds: float = _SECONDS) -> None:
        self._folder = os.path.join(folder, _FOLDER)
        self._seconds = seconds

    async def owners(self) -> dict[tuple[str, str], Owner]:
        """Who has each device, by resource and id; of two that are said to have it the first."""
        try:
            with within(self._folder, KUBELET) as path:
                async with asyncio.timeout(self._seconds), Channel(path=path) as channel:
                    answer = await PodResourcesListerStub(channel).List(ListPodResourcesRequest())
        except (*FAILURES, *NONSENSE) as error:
            path = os.path.join(self._folder, KUBELET)
            raise KubeletError(in_words(error, path, self._seconds)) from error
        return _owners(answer)


def _owners(answer: ListPodResourcesResponse) -> dict[tuple[str, str], Owner]:
    found: dict[tuple[str, str], Owner] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            owner = Owner(namespace=pod.namespace, pod=pod.name, container=container.name)
            for devices in container.devices:
                for one in devices.device_ids:
                    found.setdefault((devices.resource_name, one), owner)
    return found
