"""What the embedded API server can take, over TLS as `laneway up` serves it.

The server is a process of its own, its clients are this one. Both encrypt and both want a core, so
where clients ask at once the CPU time that the server spent on a request says more than the rate.
The watchers are 100 connections of this process; a latency is the time from before a patch is sent
until one of them has its event.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any

import aiohttp
from support.children import Child, start
from support.report import arguments, header, middle, ms, percentile, table

from laneway.api import VGPUDevice
from laneway.api.crds import crds
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource, served
from laneway.kube.tls import client_context

_VGPUS = served(VGPUDevice)
_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, VGPUDevice)
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_SENT = re.compile(rb'"sent":"([0-9.]+)"')
_PROFILES = [f"NVIDIA A2-{size}Q" for size in (1, 2, 4, 8, 16)]


def device(number: int) -> dict[str, Any]:
    node = f"node-{number // 300:03d}"
    return {
        "apiVersion": _VGPUS.api_version,
        "kind": "VGPUDevice",
        "metadata": {"name": f"{node}-{number:06d}", "labels": {"nodename": node}},
        "spec": {"address": "0000:08:00.4", "nodeName": node, "enabled": False},
    }


def status() -> dict[str, Any]:
    """As an agent writes it: the profiles that the device can have."""
    return {"status": {"availableTypes": {name: str(at) for at, name in enumerate(_PROFILES)}}}


def name_of(number: int) -> str:
    return str(device(number)["metadata"]["name"])


async def shared(work: Iterable[Callable[[], Awaitable[object]]], clients: int) -> None:
    """Do the work with so many hands."""
    todo = iter(list(work))

    async def hand() -> None:
        for one in todo:
            await one()

    await asyncio.gather(*(hand() for _ in range(clients)))


class Bench:
    """One server with its client, and the rows found so far."""

    def __init__(self, server: Child, client: Client) -> None:
        self.server = server
        self.client = client
        self.writes: list[tuple[str, ...]] = []

    async def timed(
        self, what: str, work: list[Callable[[], Awaitable[object]]], clients: int
    ) -> None:
        """A row: how many a second, and what each cost the server."""
        before, began = await self.server.ask("usage"), time.perf_counter()
        await shared(work, clients)
        took = time.perf_counter() - began
        used = (await self.server.ask("usage"))["cpu"] - before["cpu"]
        count = len(work)
        self.writes.append((what, str(count), f"{count / took:,.0f}", ms(used / count)))

    def creating(self, numbers: Iterable[int]) -> list[Callable[[], Awaitable[object]]]:
        return [lambda at=at: self.client.create(_VGPUS, device(at)) for at in numbers]  # type: ignore[misc]

    def patching(
        self, numbers: Iterable[int], patch: Callable[[], dict[str, Any]], subresource: str = ""
    ) -> list[Callable[[], Awaitable[object]]]:
        return [
            lambda at=at: self.client.patch(  # type: ignore[misc]
                _VGPUS, name_of(at), patch(), subresource=subresource
            )
            for at in numbers
        ]


async def write(bench: Bench, objects: int) -> None:
    part = min(1000, objects // 4)
    await bench.timed("create, 1 client", bench.creating(range(part)), 1)
    await bench.timed("create, 8 clients", bench.creating(range(part, objects)), 8)
    patches = bench.patching(range(objects), status, "status")
    await bench.timed("merge patch of status, 8 clients", patches, 8)
    patches = bench.patching(range(part), lambda: {"spec": {"enabled": True}})
    await bench.timed("merge patch of spec, 1 client", patches, 1)
    patches = bench.patching(range(part), lambda: {"spec": {"enabled": True}})
    await bench.timed("the same again: nothing changes", patches, 1)


async def lists(bench: Bench, kubeconfig: str, runs: int) -> list[tuple[str, ...]]:
    """Whole lists as kubectl asks for them, and as an informer does."""
    config = load(kubeconfig)
    url = config.cluster.server + _VGPUS.path()
    context = client_context(config.cluster)
    rows = []
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        for what, accept, coding in (
            ("JSON", "application/json", "identity"),
            ("JSON, gzip", "application/json", "gzip"),
            ("Table", _TABLE, "identity"),
            ("Table, gzip", _TABLE, "gzip"),
        ):
            headers = {
                "Accept": accept,
                "Accept-Encoding": coding,
                "Authorization": f"Bearer {config.user.token}",
            }
            times, costs, size = [], [], 0
            for _ in range(runs):
                before, began = await bench.server.ask("usage"), time.perf_counter()
                async with session.get(url, headers=headers, ssl=context) as response:
                    response.raise_for_status()
                    size = len(await response.read())
                times.append(time.perf_counter() - began)
                costs.append((await bench.server.ask("usage"))["cpu"] - before["cpu"])
            rows.append((what, f"{size / 1e6:.1f}", ms(middle(times)), ms(middle(costs))))
    before, began = await bench.server.ask("usage"), time.perf_counter()
    informer = Informer(bench.client, _VGPUS)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    took = time.perf_counter() - began
    used = (await bench.server.ask("usage"))["cpu"] - before["cpu"]
    await stopped(task)
    return [*rows, ("by an informer: pages, decoded", "", ms(took), ms(used))]


class Watchers:
    """Many watches of the same collection; they only look for the moment of sending."""

    def __init__(self, kubeconfig: str, count: int) -> None:
        self.latencies: list[float] = []
        self.delivered = 0
        self._config = load(kubeconfig)
        self._count = count
        self._target = 0
        self._reached = asyncio.Event()

    async def run(self, version: str, open_: asyncio.Event) -> None:
        url = self._config.cluster.server + _VGPUS.path()
        context = client_context(self._config.cluster)
        headers = {"Authorization": f"Bearer {self._config.user.token}"}
        params = {"watch": "1", "resourceVersion": version}
        opened = 0

        async def one(session: aiohttp.ClientSession) -> None:
            nonlocal opened
            async with session.get(url, headers=headers, params=params, ssl=context) as response:
                opened += 1
                if opened == self._count:
                    open_.set()
                rest = b""
                async for chunk in response.content.iter_any():
                    whole, _, rest = (rest + chunk).rpartition(b"\n")
                    self._take(whole)

        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(one(session) for _ in range(self._count)))

    def _take(self, lines: bytes) -> None:
        now = time.perf_counter()
        sent = _SENT.findall(lines)
        self.latencies += [now - float(moment) for moment in sent]
        self.delivered += len(sent)
        if self.delivered >= self._target:
            self._reached.set()

    async def until(self, delivered: int) -> None:
        self._target = delivered
        self._reached.clear()
        if self.delivered < delivered:
            await self._reached.wait()


async def fanout(
    bench: Bench, kubeconfig: str, watchers: int, events: int
) -> list[tuple[str, ...]]:
    version = ""
    async with aclosing(bench.client.list(_VGPUS, limit=1)) as pages:
        async for page in pages:
            version = page.resource_version
            break
    opened = asyncio.Event()
    crowd = Watchers(kubeconfig, watchers)
    task = asyncio.create_task(crowd.run(version, opened))
    await opened.wait()

    def stamp() -> dict[str, Any]:
        return {"metadata": {"annotations": {"sent": f"{time.perf_counter():.6f}"}}}

    rows = []
    for what, count, clients in (
        ("one patch after the other", events // 5, 1),
        ("8 clients patch", events, 8),
    ):
        crowd.latencies.clear()
        start_at = crowd.delivered
        before, began = await bench.server.ask("usage"), time.perf_counter()
        if clients == 1:
            for number, one in enumerate(bench.patching(range(count), stamp), 1):
                await one()
                await crowd.until(start_at + number * watchers)
        else:
            await shared(bench.patching(range(count), stamp), clients)
            await crowd.until(start_at + count * watchers)
        took = time.perf_counter() - began
        used = (await bench.server.ask("usage"))["cpu"] - before["cpu"]
        delivered = crowd.delivered - start_at
        rows.append(
            (
                what,
                f"{delivered:,}",
                f"{delivered / took:,.0f}",
                *(ms(percentile(crowd.latencies, at)) for at in (50, 99)),
                f"{used / delivered * 1e6:.1f}",
            )
        )
    await stopped(task)
    return rows


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def memory(server: Child) -> str:
    return f"{(await server.ask('usage'))['memory']:.1f}"


async def run(objects: int, watchers: int, events: int) -> None:
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        async with start("api_server", directory) as server:
            kubeconfig = await server.answer()
            async with Client(load(kubeconfig)) as client:
                for crd in crds():
                    await client.create(_CRDS, crd)
                bench = Bench(server, client)
                sizes = [("with the CRDs only", await memory(server))]
                await write(bench, objects)
                table("Writes", ("", "times", "a second", "server CPU ms each"), bench.writes)
                sizes.append((f"with {objects:,} objects and their history", await memory(server)))
                rows = await lists(bench, kubeconfig, 3)
                head = (f"List of {objects:,}", "MB", "ms", "server CPU ms")
                table("Lists, medians", head, rows)
                sizes.append(("after the lists", await memory(server)))
                delivered = await fanout(bench, kubeconfig, watchers, events)
                title = f"Events to {watchers} watchers"
                columns = ("", "delivered", "a second", "p50 ms", "p99 ms", "server CPU us each")
                table(title, columns, delivered)
                sizes.append(("after the watches", await memory(server)))
                table("Memory of the server", ("", "MB"), sizes)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="to list (default: 10000)")
    parser.add_argument("--watchers", type=int, default=100, help="at once (default: 100)")
    parser.add_argument("--events", type=int, default=500, help="to all of them (default: 500)")
    options = parser.parse_args()
    header()
    asyncio.run(run(options.objects, options.watchers, options.events))


if __name__ == "__main__":
    main()
