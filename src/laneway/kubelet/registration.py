"""Telling the kubelet of a plugin."""

from __future__ import annotations

import asyncio
import os

from grpclib.client import Channel

from laneway.api.kubelet.deviceplugin_grpc import RegistrationStub
from laneway.api.kubelet.deviceplugin_pb2 import DevicePluginOptions, RegisterRequest
from laneway.api.kubelet.sockets import KUBELET, within
from laneway.kubelet.errors import FAILURES, NONSENSE, in_words

OPTIONS = DevicePluginOptions(get_preferred_allocation_available=True)
_VERSION = "v1beta1"
SECONDS = 10.0
"""In which the kubelet must answer."""


async def register(folder: str, resource: str, endpoint: str) -> str:
    """Why the kubelet did not take the plugin; empty when it did.

    The kubelet calls the plugin before it answers, so this must be serving already.
    """
    request = RegisterRequest(
        version=_VERSION, endpoint=endpoint, resource_name=resource, options=OPTIONS
    )
    try:
        with within(folder, KUBELET) as path:
            async with asyncio.timeout(SECONDS), Channel(path=path) as channel:
                await RegistrationStub(channel).Register(request)
    except (*FAILURES, *NONSENSE) as error:
        return in_words(error, os.path.join(folder, KUBELET), SECONDS)
    return ""
