"""An agent on a host of `remote_host.py`: a program that runs with the sources of any version.

    PYTHONPATH=... python agent.py NODE KUBECONFIG SOCKET STATE BOOT KUBELET

It imports nothing of the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from laneway.cli.logs import configure
from laneway.controllers.metrics import MetricFamilies
from laneway.core.inventory import InterfaceAddress
from laneway.core.programs import CommandMissingError, Completed
from laneway.host import port
from laneway.host.hardware import Hardware
from laneway.host.plans.state import StateFolder
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.roles.agent import Agent
from laneway.roles.stop import run_until_signal

LENGTH = struct.Struct("!I")


class RemoteHost:
    """The port of hosts, and its executor, over a socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")
        self._lock = threading.Lock()
        """Scans run in threads."""

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._socket.sendall(_message(name, arguments))
            (length,) = LENGTH.unpack(self._file.read(LENGTH.size))
            body = self._file.read(length)
        return _value(body)

    async def _ask(self, name: str, *arguments: Any) -> Any:
        async with self._subscribed(name, *arguments) as answers:
            return await anext(answers)

    @contextlib.asynccontextmanager
    async def _subscribed(self, name: str, *arguments: Any) -> AsyncIterator[AsyncIterator[Any]]:
        reader, writer = await asyncio.open_unix_connection(self._path)

        async def answers() -> AsyncIterator[Any]:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                yield _value(await reader.readexactly(length))

        writer.write(_message(name, arguments))
        async with contextlib.aclosing(answers()) as found:
            try:
                yield found
            finally:
                writer.close()

    def read(self, path: str) -> bytes:
        return bytes(self._call("read", path))

    def read_start(self, path: str, size: int) -> bytes:
        return bytes(self._call("read_start", path, size))

    def names(self, path: str) -> list[str]:
        return list(self._call("names", path))

    def entries(self, path: str) -> dict[str, bool]:
        return dict(self._call("entries", path))

    def readlink(self, path: str) -> str:
        return str(self._call("readlink", path))

    def resolve(self, path: str) -> str:
        return str(self._call("resolve", path))

    def exists(self, path: str) -> bool:
        return bool(self._call("exists", path))

    def owner(self, path: str) -> tuple[int, int]:
        uid, gid = self._call("owner", path)
        return uid, gid

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        self._call("set_owner", path, uid, gid)

    def write(self, path: str, data: str) -> None:
        self._call("write", path, data)

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        await self._ask("write_within", path, data, seconds)

    def addresses(self) -> list[InterfaceAddress]:
        return msgspec.convert(self._call("addresses"), list[InterfaceAddress])

    async def has(self, program: str) -> bool:
        return bool(await self._ask("has", program))

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        return msgspec.convert(await self._ask("run", list(argv), seconds), Completed)

    @contextlib.asynccontextmanager
    async def uevents(self) -> AsyncIterator[AsyncIterator[Any]]:
        async with self._subscribed("uevents") as events:
            await anext(events)  # it is subscribed now
            yield (msgspec.convert(event, port.Uevent) async for event in events)

    @contextlib.asynccontextmanager
    async def kernel_messages(self) -> AsyncIterator[AsyncIterator[str]]:
        async with self._subscribed("kernel_messages") as messages:
            await anext(messages)
            yield messages


def _message(name: str, arguments: Sequence[Any]) -> bytes:
    body = msgspec.msgpack.encode([name, arguments])
    return LENGTH.pack(len(body)) + body


def _value(body: bytes) -> Any:
    answer = msgspec.msgpack.decode(body)
    if "error" not in answer:
        return answer["value"]
    kind, number, text, path = answer["error"]
    if kind == "CommandMissingError":
        raise CommandMissingError(number, text)
    raise TimeoutError if number is None else OSError(number, text, path)


async def main(node: str, kubeconfig: str, path: str, hardware: Sequence[str]) -> None:
    """Run until a signal ends it. `hardware`: folder of state, boot, folder of the kubelet."""
    state, boot, kubelet = hardware
    host = RemoteHost(path)
    async with Client(load(kubeconfig)) as client:
        node_hardware = Hardware(host, host, StateFolder(state, boot))
        agent = Agent(node, node_hardware, client, MetricFamilies(), kubelet)
        await run_until_signal(agent.run())


if __name__ == "__main__":
    configure()
    asyncio.run(main(*sys.argv[1:4], sys.argv[4:]))
