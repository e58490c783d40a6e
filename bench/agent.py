"""What an agent costs on a host with many devices, and how soon it shows a change.

The agent and the embedded API server are processes of their own, this script watches as a third.
Memory and CPU time are those of an agent on a copy of the host's files, as on a node; the times
from a kernel event to a changed object are taken on the simulated host itself, where a disk is
pulled out and put back again and again. An agent rests after a scan, so that a storm of events
costs little; changes that come alone do not meet that rest, those in a row do, and both are shown.
What an agent uses while nothing happens is measured before the changes, and not counted as theirs.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
from support.children import Child, start
from support.installed import install
from support.node import NODE
from support.report import arguments, header, ms, percentile, table
from support.server import DISK, large_server
from support.trees import in_memory_directory, materialise

from laneway.api import PCIDevice, SRIOVGPUDevice, VGPUDevice
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served

REST_SECONDS = 0.4
"""Longer than an agent rests after a scan of this host on a machine that is not too busy."""

SETTLING_SECONDS = 3.0
"""An agent that has just begun has more to do than one that runs."""

_PCI = served(PCIDevice)


async def count(client: Client, kind: Any) -> int:
    return sum([len(page.items) async for page in client.list(served(kind))])


async def costs(functions: int, seconds: float) -> list[tuple[str, str]]:
    """An agent on files: until it is ready, and while nothing happens."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        tree = stack.enter_context(in_memory_directory())
        host = large_server(functions)
        materialise(host, tree)
        server = await stack.enter_async_context(start("api_server", directory))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await install(client, NODE)
        before, began = await server.ask("usage"), time.perf_counter()
        agent = await stack.enter_async_context(start("node", kubeconfig, str(functions), tree))
        ready = await agent.answer()
        wall = time.perf_counter() - began
        after = await server.ask("usage")
        kinds = (PCIDevice, SRIOVGPUDevice, VGPUDevice)
        objects = [await count(client, kind) for kind in kinds]
        found = scan(host)
        rows = [
            ("PCI functions, of them VFs for vGPUs", f"{len(found.functions)}, {len(found.vgpus)}"),
            ("PCIDevices, SRIOVGPUDevices, VGPUDevices", ", ".join(map(str, objects))),
            ("start to ready", f"{wall:.2f} s"),
            ("CPU to ready", f"{ready['cpu']:.2f} s"),
            ("requests to ready", f"{after['requests'] - before['requests']:,}"),
            ("CPU of the API server meanwhile", f"{after['cpu'] - before['cpu']:.2f} s"),
            ("memory when ready", f"{ready['memory']:.1f} MB"),
        ]
        before, quiet = await server.ask("usage"), await agent.ask("usage")
        await asyncio.sleep(seconds)
        after, later = await server.ask("usage"), await agent.ask("usage")
        return [
            *rows,
            (f"memory {seconds:.0f} s later", f"{later['memory']:.1f} MB"),
            (f"CPU in these {seconds:.0f} s", f"{later['cpu'] - quiet['cpu']:.2f} s"),
            (
                f"requests in these {seconds:.0f} s",
                str(after["requests"] - before["requests"]),
            ),
        ]


class Watcher:
    """Notes when changes of the disk's object arrive."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[tuple[str, float]] = asyncio.Queue()

    async def run(self, client: Client, since: str, name: str) -> None:
        async for event in client.watch(_PCI, resource_version=since):
            if event.type != "BOOKMARK":
                obj = msgspec.json.decode(event.object)
                if obj["metadata"]["name"] == name:
                    what = "STATUS" if "address" in obj.get("status", {}) else event.type
                    what = event.type if event.type == "DELETED" else what
                    self._seen.put_nowait((what, time.perf_counter()))

    async def until(self, what: str) -> float:
        while True:
            seen, moment = await self._seen.get()
            if seen == what:
                return moment


async def latencies(
    functions: int, events: int, seconds: float
) -> tuple[list[tuple[str, ...]], float, float]:
    """From the moment before the kernel's event to the object in a watcher's hands.

    With it the CPU time of the agent for one change, and for a second of quiet.
    """
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        server = await stack.enter_async_context(start("api_server", directory))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await install(client, NODE)
        agent = await stack.enter_async_context(start("node", kubeconfig, str(functions)))
        await agent.answer()
        address = DISK.rpartition("/")[2]
        version, name = "", ""
        async for page in client.list(_PCI):
            version = page.resource_version
            for device in map(_PCI.decode, page.items):
                if device.status.address == address:
                    name = device.metadata.name
        watcher = Watcher()
        task = asyncio.create_task(watcher.run(client, version, name))
        await asyncio.sleep(SETTLING_SECONDS)
        began = await agent.ask("usage")
        await asyncio.sleep(seconds)
        quiet = await agent.ask("usage")
        at_rest, rested = (quiet["cpu"] - began["cpu"]) / seconds, time.perf_counter()
        gone, back = await _changes(agent, watcher, events, REST_SECONDS)
        used = (await agent.ask("usage"))["cpu"] - quiet["cpu"]
        used -= at_rest * (time.perf_counter() - rested)
        gone_in_a_row, back_in_a_row = await _changes(agent, watcher, events // 4, 0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    times = {
        "pulled out, alone: object deleted": gone,
        "put in, alone: object with its status": back,
        "both, alone": gone + back,
        "both, in a row": gone_in_a_row + back_in_a_row,
    }
    rows = [
        (what, str(len(took)), *(ms(percentile(took, at)) for at in (50, 99, 100)))
        for what, took in times.items()
    ]
    return rows, used / len(gone + back), at_rest


async def _changes(
    agent: Child, watcher: Watcher, events: int, pause: float
) -> tuple[list[float], list[float]]:
    """How long the object of a disk took to go, and to come back, time after time."""
    gone: list[float] = []
    back: list[float] = []
    for _ in range(events // 2):
        for order, what, took in (("unplug", "DELETED", gone), ("plug", "STATUS", back)):
            await asyncio.sleep(pause)
            moment = await agent.ask(order)
            took.append(await watcher.until(what) - moment)
    return gone, back


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--functions", type=int, default=300, help="PCI functions (default: 300)")
    parser.add_argument("--events", type=int, default=100, help="hot-plugs (default: 100)")
    parser.add_argument("--seconds", type=float, default=20, help="of quiet (default: 20)")
    options = parser.parse_args()
    header()
    rows = asyncio.run(costs(options.functions, options.seconds))
    table("An agent on the host's files", ("what", "value"), rows)
    changes, used, at_rest = asyncio.run(
        latencies(options.functions, options.events, options.seconds)
    )
    head = ("from the kernel's event", "times", "p50 ms", "p99 ms", "max ms")
    table(
        f"An agent on the simulated host, {ms(used)} ms of its CPU for each change, "
        f"{ms(at_rest)} ms for a second of quiet",
        head,
        changes,
    )


if __name__ == "__main__":
    main()
