"""What a kubelet can call at a plugin: the list of devices, and handing them out.

The list of a resource is kept as the message that is sent, so what has not changed is not sent:
a stream gets the present list at once and then each different one. Whatever is asked is answered
from the offers as they are at that moment, not from what some stream was sent, so a device that
is no longer offered is refused although the kubelet has not heard of it yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from laneway.api.kubelet import deviceplugin_pb2 as pb
from laneway.api.kubelet.deviceplugin_grpc import DevicePluginBase
from laneway.core.device_plugin.allocate import Answer, Denied, answer, with_group_members
from laneway.core.device_plugin.offer import Offer
from laneway.core.device_plugin.preference import prefer
from laneway.kubelet.recent import RecentAllocations
from laneway.kubelet.registration import OPTIONS
from laneway.kubelet.serving import received


class Signal:
    """Wakes everybody who waits until something holds, so that they look again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def give(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Whether it came to hold in time."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self._event.wait()
        except TimeoutError:
            return False
        return True


class Gate(Protocol):
    """Who says what the pod that is meant may have."""

    async def barred(
        self, resource: str, offers: Sequence[Offer], count: int, *, patient: bool
    ) -> Mapping[str, str]:
        """Of these devices those that the pods that request so many may not have, by id, and why.

        `patient`: wait a moment where it depends on who of several is meant.
        """
        ...


class Open:
    """Everybody may have everything."""

    async def barred(
        self, _resource: str, _offers: Sequence[Offer], _count: int, *, patient: bool
    ) -> Mapping[str, str]:
        """Nothing, at once."""
        del patient
        return {}


class Service(DevicePluginBase):
    """The devices of one resource."""

    def __init__(
        self, resource: str, recent: RecentAllocations, signal: Signal, gate: Gate | None = None
    ) -> None:
        self._gate = gate or Open()
        self._resource = resource
        self._recent = recent
        self._signal = signal
        self._offers: Mapping[str, Offer] = {}
        self._list = pb.ListAndWatchResponse()
        self._reported: dict[object, pb.ListAndWatchResponse | None] = {}
        """By stream, what it was sent last."""

    def offer(self, offers: Sequence[Offer]) -> None:
        self._offers = {offer.id: offer for offer in offers}
        devices = [_device(offer) for _, offer in sorted(self._offers.items())]
        present = pb.ListAndWatchResponse(devices=devices)
        if present != self._list:
            self._list = present
            self._signal.give()

    @property
    def empty(self) -> bool:
        return not self._offers

    @property
    def heard(self) -> bool:
        """Whether a kubelet listens, and has been sent a list."""
        return any(reported is not None for reported in self._reported.values())

    @property
    def sent(self) -> bool:
        """Whether everybody who listens has been sent the present list."""
        return all(reported is self._list for reported in self._reported.values())

    async def GetDevicePluginOptions(
        self, stream: Stream[pb.Empty, pb.DevicePluginOptions]
    ) -> None:
        await received(stream)
        await stream.send_message(OPTIONS)

    async def ListAndWatch(self, stream: Stream[pb.Empty, pb.ListAndWatchResponse]) -> None:
        await received(stream)
        self._reported[stream] = None
        try:
            while True:
                present = self._list
                await stream.send_message(present)
                self._reported[stream] = present
                self._signal.give()
                await self._signal.until(lambda: self._reported[stream] is not self._list)
        finally:
            del self._reported[stream]
            self._signal.give()

    async def GetPreferredAllocation(
        self, stream: Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse]
    ) -> None:
        request = await received(stream)
        chosen = []
        for one in request.container_requests:
            barred = await self._barred(one.available_deviceIDs, one.allocation_size)
            free = [device for device in one.available_deviceIDs if device not in barred]
            must = one.must_include_deviceIDs
            chosen.append(prefer(self._offers, free, must, one.allocation_size))
        await stream.send_message(
            pb.PreferredAllocationResponse(
                container_responses=[
                    pb.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in chosen
                ]
            )
        )

    async def Allocate(self, stream: Stream[pb.AllocateRequest, pb.AllocateResponse]) -> None:
        request = await received(stream)
        asked = [[*one.devicesIDs] for one in request.container_requests]
        barred: Mapping[str, str] = {}
        for ids in asked:
            barred = barred or await self._barred(ids, len(ids), patient=True)
        result: tuple[Answer, ...] | Denied = (
            Denied(next(iter(barred.values())))
            if barred
            else answer(self._resource, self._offers, asked, self._recent.of(self._resource))
        )
        if isinstance(result, Denied):
            self._recent.refused[self._resource] += 1
            raise GRPCError(
                Status.INVALID_ARGUMENT if result.senseless else Status.FAILED_PRECONDITION,
                result.why,
            )
        # Noted before it is answered: from the first byte of the answer on, the devices are taken.
        self._recent.note((self._resource, one) for ids in asked for one in ids)
        await stream.send_message(
            pb.AllocateResponse(container_responses=[_container(one) for one in result])
        )

    async def _barred(
        self, ids: Sequence[str], count: int, *, patient: bool = False
    ) -> Mapping[str, str]:
        """What of these, or of their groups, the pods that are meant may not have, and why."""
        offers = self._offers
        groups = {one: with_group_members(offers, (one,)) & offers.keys() for one in ids}
        devices = [offers[one] for one in sorted({*ids}.union(*groups.values()) & offers.keys())]
        found = await self._gate.barred(self._resource, devices, count, patient=patient)
        return {
            one: found[member]
            for one, members in groups.items()
            for member in sorted(members)
            if member in found
        }

    async def PreStartContainer(
        self, stream: Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]
    ) -> None:
        await received(stream)
        await stream.send_message(pb.PreStartContainerResponse())


def _device(offer: Offer) -> pb.Device:
    health = "Unhealthy" if offer.unhealthy else "Healthy"
    if offer.numa_node is None:
        return pb.Device(ID=offer.id, health=health)
    node = pb.NUMANode(ID=offer.numa_node)
    return pb.Device(ID=offer.id, health=health, topology=pb.TopologyInfo(nodes=[node]))


def _container(reported: Answer) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=reported.environment,
        devices=[
            pb.DeviceSpec(container_path=node, host_path=node, permissions="mrw")
            for node in reported.nodes
        ],
    )
