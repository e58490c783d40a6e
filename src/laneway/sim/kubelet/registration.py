"""Where plugins make themselves known: what a kubelet accepts, and what it answers else."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from grpclib import GRPCError, Status

from laneway.api.kubelet.deviceplugin_grpc import RegistrationBase
from laneway.api.kubelet.deviceplugin_pb2 import Empty, RegisterRequest
from laneway.sim.kubelet.faults import Faults, behave
from laneway.sim.kubelet.sockets import Service

if TYPE_CHECKING:
    from grpclib.server import Stream

VERSION = "v1beta1"

_FOLDER = "/var/lib/kubelet/device-plugins/"
_MAX_PATH = 107
_MAX_PREFIX = 253 - len("requests.")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class RegistrationError(Exception):
    """The kubelet does not take a plugin; the text is what it answers."""


class Registration(RegistrationBase):
    """The service at `kubelet.sock`."""

    def __init__(self, connect: Callable[[str, str], Awaitable[None]], faults: Faults) -> None:
        """`connect`: takes on a plugin by resource and endpoint, or raises RegistrationError."""
        self._connect = connect
        self._faults = faults
        self.service = Service(self)

    async def Register(self, stream: Stream[RegisterRequest, Empty]) -> None:
        request = await stream.recv_message()
        await behave(self._faults.register, self.service.disconnect)
        if request is None:
            raise GRPCError(Status.INTERNAL, "no request")
        try:
            check(request)
            await self._connect(request.resource_name, request.endpoint)
        except RegistrationError as error:
            raise GRPCError(Status.UNKNOWN, str(error)) from None
        await stream.send_message(Empty())


def check(request: RegisterRequest) -> None:
    """What kubelets look at before they call back."""
    if request.version != VERSION:
        raise RegistrationError(
            f'requested API version "{request.version}" is not supported by kubelet. '
            f'Supported version is ["{VERSION}"]'
        )
    if not extended(request.resource_name):
        raise RegistrationError(f'the ResourceName "{request.resource_name}" is invalid')
    endpoint = request.endpoint
    if not endpoint or "/" in endpoint or len((_FOLDER + endpoint).encode()) > _MAX_PATH:
        raise RegistrationError(
            "failed to dial device plugin: dial unix "
            f"{_FOLDER}{endpoint}: connect: invalid argument"
        )


def extended(resource: str) -> bool:
    """Whether a name is one of an extended resource, which quotas must be able to prefix."""
    prefix, _, name = resource.partition("/")
    return (
        "kubernetes.io/" not in resource
        and not resource.startswith("requests.")
        and len(prefix) <= _MAX_PREFIX
        and _PREFIX.fullmatch(prefix) is not None
        and _NAME.fullmatch(name) is not None
    )
