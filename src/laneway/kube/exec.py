"""Runs a program in a container: the `exec` subresource of a pod, over a websocket.

Each message is binary and begins with the number of its channel. The last thing that comes is a
`Status` on the error channel, which alone tells how the program ended; a connection that ends
before it leaves the outcome unknown, and so says the error. Version 4 of the protocol is what every
kubelet speaks, version 5 what newer API servers prefer; they differ only in how a client ends its
input, and we send none.

Kubernetes has no way to end a program that was started so. A time limit bounds the waiting; what
was started may go on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp
import msgspec

from laneway.core.printed import Tail, clean, joined
from laneway.core.programs import Completed
from laneway.kube.client import Client
from laneway.kube.errors import CutOffError, UndecodableError, from_status
from laneway.kube.pods import PODS

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_NUMBER = re.compile(r"[0-9]{1,3}")
_MAX_STATUS = 64 * 1024
_TEXT_LIMIT = 300


class Target(NamedTuple):
    """A container to run something in."""

    namespace: str
    pod: str
    container: str


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    status: str
    reason: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


async def execute(client: Client, target: Target, argv: Sequence[str], seconds: float) -> Completed:
    """Run a program by its argument vector and wait for its end.

    Raises ApiError when it was refused or could not be started, UnreachableError when it was never
    asked for, CutOffError and UndecodableError when its outcome is unknown, and TimeoutError.
    """
    params = [("container", target.container), ("stdout", "true"), ("stderr", "true")]
    params += [("command", argument) for argument in argv]
    path = PODS.path(target.namespace, target.pod, "exec")
    async with asyncio.timeout(seconds), client.websocket(path, params, PROTOCOLS) as socket:
        if socket.protocol is None:
            offered = " nor ".join(PROTOCOLS)
            raise UndecodableError(f"the server speaks neither {offered}; is a proxy in between?")
        return await _follow(socket)


async def _follow(socket: aiohttp.ClientWebSocketResponse) -> Completed:
    out, err, told = Tail(), Tail(), bytearray()
    while True:
        try:
            data = await _message(socket)
        except CutOffError:
            if told.strip():
                raise UndecodableError(
                    f"the program's end was told by no Status: {_shown(told)}"
                ) from None
            raise
        channel, content = data[0], data[1:]
        match channel:
            case 1:
                out.add(content)
            case 2:
                err.add(content)
            case 3:
                told += content
                if (status := _exit_status(told)) is not None:
                    return Completed(status, joined(out.text(), err.text()))
            case _ if content:
                raise UndecodableError(f"the server sent data on channel {channel}, which has none")


async def _message(socket: aiohttp.ClientWebSocketResponse) -> bytes:
    """The next message; it has a channel."""
    message = await socket.receive()
    match message.type:
        case aiohttp.WSMsgType.BINARY if message.data:
            data: bytes = message.data
            return data
        case aiohttp.WSMsgType.BINARY | aiohttp.WSMsgType.TEXT:
            raise UndecodableError("the server sent a message that is of no channel")
        case aiohttp.WSMsgType.ERROR:
            raise CutOffError(
                f"the connection failed before the program's end was told: {message.data}"
            )
    said = clean(str(message.extra or "").encode())
    code = f"code {socket.close_code}{', ' if said else ''}{said}"
    raise CutOffError(f"the connection was closed before the program's end was told ({code})")


def _exit_status(told: bytes | bytearray) -> int | None:
    """The exit status in what the error channel has told; None while that is not complete.

    The server may cut it anywhere. Raises ApiError when the program was not started.
    """
    if not told.strip():
        return None
    try:
        status = _decode_status(told)
    except msgspec.ValidationError:
        raise UndecodableError(f"the program's end was told by no Status: {_shown(told)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        if len(told) > _MAX_STATUS:
            raise UndecodableError(f"no end of a Status that begins {_shown(told)}") from None
        return None
    if status.status == "Success":
        return 0
    if status.reason != "NonZeroExitCode":
        raise from_status(bytes(told), 500)
    causes = (status.details or _Details()).causes or []
    codes = [cause.message or "" for cause in causes if cause.reason == "ExitCode"]
    if len(codes) != 1 or not _NUMBER.fullmatch(codes[0]):
        raise UndecodableError(f"the program's exit status is missing: {_shown(told)}")
    return int(codes[0])


def _shown(told: bytes | bytearray) -> str:
    return " ".join(clean(bytes(told[:_TEXT_LIMIT])).split())
