"""One registered plugin as the kubelet sees it: a connection, and what may be asked through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from google.protobuf.message import DecodeError
from grpclib import GRPCError, Status
from grpclib.exceptions import ProtocolError, StreamTerminatedError

from laneway.api.kubelet.deviceplugin_grpc import DevicePluginStub
from laneway.api.kubelet.deviceplugin_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    Empty,
    PreferredAllocationRequest,
)
from laneway.sim.kubelet.registration import RegistrationError
from laneway.sim.kubelet.sockets import Dialled

_BROKEN = (GRPCError, StreamTerminatedError, ProtocolError, DecodeError, OSError)
_HEALTHY = "Healthy"


class PluginError(Exception):
    """The plugin refused or is gone; the text is as a kubelet has it."""


class Plugin:
    """The connection to what registered for a resource."""

    def __init__(self, resource: str, channel: Dialled) -> None:
        self.resource = resource
        self._channel = channel
        self._stub = DevicePluginStub(channel)
        self._prefers = False

    @classmethod
    async def connect(cls, resource: str, folder: str, name: str, authority: str) -> Plugin:
        """Call back a plugin that registers; it has to listen already."""
        channel = Dialled(folder, name, authority)
        plugin = cls(resource, channel)
        try:
            try:
                await channel.__connect__()
            except OSError as error:
                words = f"failed to dial device plugin: {error.strerror}"
                raise RegistrationError(words) from None
            try:
                options = await plugin._stub.GetDevicePluginOptions(Empty())
            except _BROKEN as error:
                words = f"failed to get device plugin options: {_in_go(error)}"
                raise RegistrationError(words) from None
        except BaseException:
            channel.close()
            raise
        plugin._prefers = options.get_preferred_allocation_available
        return plugin

    def close(self) -> None:
        self._channel.close()

    async def follow(self, listed: Callable[[Mapping[str, bool]], None]) -> None:
        """Hand on every list of devices, each with whether it is healthy, until the stream ends."""
        try:
            async with self._stub.ListAndWatch.open() as stream:
                await stream.send_message(Empty(), end=True)
                async for message in stream:
                    listed({device.ID: device.health == _HEALTHY for device in message.devices})
        except _BROKEN:
            return  # why does not matter to a kubelet

    async def preferred(self, available: Iterable[str], size: int) -> frozenset[str]:
        """What the plugin would like to give of what is free; nothing if it does not care."""
        if not self._prefers:
            return frozenset()
        request = ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted(available), allocation_size=size
        )
        try:
            answer = await self._stub.GetPreferredAllocation(
                PreferredAllocationRequest(container_requests=[request])
            )
        except _BROKEN as error:
            words = f"device plugin GetPreferredAllocation rpc failed with err: {_in_go(error)}"
            raise PluginError(words) from None
        responses = answer.container_responses
        return frozenset(responses[0].deviceIDs) if responses else frozenset()

    async def allocate(self, ids: Iterable[str]) -> ContainerAllocateResponse:
        request = ContainerAllocateRequest(devicesIDs=sorted(ids))
        try:
            answer = await self._stub.Allocate(AllocateRequest(container_requests=[request]))
        except _BROKEN as error:
            raise PluginError(_in_go(error)) from None
        if not answer.container_responses:
            raise PluginError("no containers return in allocation response")
        return answer.container_responses[0]


def _in_go(error: Exception) -> str:
    """An error as a Go client words it."""
    if isinstance(error, GRPCError):
        code = "".join(word.capitalize() for word in error.status.name.split("_"))
        return f"rpc error: code = {code} desc = {error.message or ''}"
    return f"rpc error: code = {Status.UNAVAILABLE.name.capitalize()} desc = {error}"
