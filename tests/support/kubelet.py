"""The server's side of `exec`: what a kubelet does with a program that somebody wants to run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

V4 = "v4.channel.k8s.io"
V5 = "v5.channel.k8s.io"
SUCCESS = {"metadata": {}, "status": "Success"}

Behaviour = Callable[[web.WebSocketResponse], Awaitable[None]]


def exited(code: object) -> dict[str, Any]:
    """What a kubelet says of a program that failed."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def not_found(program: str) -> dict[str, Any]:
    """What a kubelet says of a program that containerd and runc could not find."""
    cause = (
        "rpc error: code = Unknown desc = failed to exec in container: failed to start exec "
        '"5f": OCI runtime exec failed: exec failed: unable to start container process: exec: '
    )
    cause += (
        f'"{program}": stat {program}: no such file or directory: unknown'
        if "/" in program
        else f'"{program}": executable file not found in $PATH: unknown'
    )
    message = f"Internal error occurred: error executing command in container: {cause}"
    return {"status": "Failure", "message": message, "reason": "InternalError", "code": 500}


def sends(*messages: tuple[int, bytes | dict[str, Any]]) -> Behaviour:
    """Messages by channel, then a regular close."""

    async def behave(socket: web.WebSocketResponse) -> None:
        for channel, content in messages:
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            await socket.send_bytes(bytes([channel]) + data)
        await socket.close()

    return behave


def ends(status: int = 0, out: bytes = b"", err: bytes = b"") -> Behaviour:
    """A program that prints and ends. An empty message first: so kubelets say that they listen."""
    return sends((1, b""), (1, out), (2, err), (3, exited(status) if status else SUCCESS))


async def upgrade(
    request: web.Request, behave: Behaviour, protocols: Sequence[str] = (V4,)
) -> web.WebSocketResponse:
    """Answer a request for `exec`."""
    socket = web.WebSocketResponse(protocols=protocols, timeout=0.1)
    await socket.prepare(request)
    await behave(socket)
    return socket
