"""The vendors' device plugins of a simulated node, as far as a kubelet notices them.

A real one comes with its DaemonSet to nodes that have a label, which an agent sets. Here it comes
with the label, advertises the GPUs on its vendor's driver, and gives nothing but a name to a
container: nothing runs there that could use one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpclib.server import Stream

from laneway.api.kubelet import deviceplugin_pb2 as pb
from laneway.api.kubelet.deviceplugin_grpc import DevicePluginBase
from laneway.core.gpu.vendors import Gpu, Vendor, gpus_of, resource_of
from laneway.core.node_labels import CONTAINERS
from laneway.host.port import Host
from laneway.host.scan import scan
from laneway.kubelet.registration import OPTIONS, register
from laneway.kubelet.serving import received, serving

_AGAIN_SECONDS = 1.0


class VendorPlugins:
    """Those of one node. Run `run` in a task, as long as the node's kubelet runs."""

    def __init__(self, folder: str, host: Host) -> None:
        """`folder`: the kubelet's."""
        self._folder = str(Path(folder, "device-plugins"))
        self._host = host
        self._asked: frozenset[Vendor] = frozenset()
        self._changed = asyncio.Event()

    def see(self, labels: Mapping[str, str]) -> None:
        """Take the labels of the node."""
        asked = frozenset(one for one, label in CONTAINERS.items() if labels.get(label) == "true")
        if asked != self._asked:
            self._asked = asked
            self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        running: dict[Vendor, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                for vendor in running.keys() - self._asked:
                    running.pop(vendor).cancel()
                for vendor in self._asked - running.keys():
                    running[vendor] = tasks.create_task(self._serve(vendor))
                await self._changed.wait()

    async def _serve(self, vendor: Vendor) -> None:
        """One vendor's, until cancelled."""
        found = await asyncio.to_thread(scan, self._host)
        gpus = [one for one in gpus_of(found) if one.vendor is vendor and one.for_containers]
        resource = resource_of(vendor, [one.driver for one in gpus])
        endpoint = f"{vendor}-gpu.sock"
        async with serving(self._folder, endpoint, [_Service(gpus)]):
            while True:
                if not await register(self._folder, resource, endpoint):
                    await asyncio.Event().wait()
                await asyncio.sleep(_AGAIN_SECONDS)


class _Service(DevicePluginBase):
    """What the kubelet asks a plugin."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._devices = [pb.Device(ID=str(one.address), health="Healthy") for one in gpus]

    async def GetDevicePluginOptions(
        self, stream: Stream[pb.Empty, pb.DevicePluginOptions]
    ) -> None:
        await received(stream)
        await stream.send_message(OPTIONS)

    async def ListAndWatch(self, stream: Stream[pb.Empty, pb.ListAndWatchResponse]) -> None:
        await received(stream)
        await stream.send_message(pb.ListAndWatchResponse(devices=self._devices))
        await asyncio.Event().wait()

    async def Allocate(self, stream: Stream[pb.AllocateRequest, pb.AllocateResponse]) -> None:
        request = await received(stream)
        given = [
            pb.ContainerAllocateResponse(envs={"GPU": ",".join(one.devicesIDs)})
            for one in request.container_requests
        ]
        await stream.send_message(pb.AllocateResponse(container_responses=given))

    async def GetPreferredAllocation(
        self,
        stream: Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse],
    ) -> None:
        request = await received(stream)
        chosen = [
            pb.ContainerPreferredAllocationResponse(
                deviceIDs=sorted(one.available_deviceIDs)[: one.allocation_size]
            )
            for one in request.container_requests
        ]
        await stream.send_message(pb.PreferredAllocationResponse(container_responses=chosen))

    async def PreStartContainer(
        self, stream: Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]
    ) -> None:
        await received(stream)
        await stream.send_message(pb.PreStartContainerResponse())
