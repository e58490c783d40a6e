"""How fast the informer takes in a collection and its changes, and what it costs in memory.

A server in a process of its own sends bodies that it encoded beforehand, over plain HTTP on
loopback, so the table shows the client's work and little else.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.memory import resident
from support.report import arguments, header, table

from laneway.api import VGPUDevice
from laneway.kube.client import PAGE, Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of, served
from laneway.roles.collector import expect_many_objects

PROFILES = ["NVIDIA A2-1Q", "NVIDIA A2-2Q", "NVIDIA A2-4Q", "NVIDIA A2-8Q", "NVIDIA A2-16Q"]


def device(number: int, version: int) -> dict[str, Any]:
    node = f"node-{number // 300:03d}"
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": {
            "name": f"{node}-{number:06d}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "labels": {"nodename": node},
            "managedFields": [{"manager": "laneway", "fieldsV1": {"f:spec": {"f:enabled": {}}}}],
        },
        "spec": {"address": "0000:08:00.4", "nodeName": node, "enabled": True},
        "status": {"availableTypes": {name: f"nvidia-{at}" for at, name in enumerate(PROFILES)}},
    }


def serve(count: int, port: Connection) -> None:
    pages = [
        json.dumps(
            {
                "metadata": {
                    "resourceVersion": str(count),
                    "continue": str(start + PAGE) if start + PAGE < count else "",
                },
                "items": [device(at, at + 1) for at in range(start, min(start + PAGE, count))],
            }
        ).encode()
        for start in range(0, count, PAGE)
    ]
    changes = b"".join(
        json.dumps({"type": "MODIFIED", "object": device(at, count + at + 1)}).encode() + b"\n"
        for at in range(count)
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                query = parse_qs(urlsplit(head.split(b" ", 2)[1].decode()).query)
                if "watch" in query:
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + changes)
                    await asyncio.Event().wait()
                page = pages[int(query.get("continue", ["0"])[0]) // PAGE]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
                await writer.drain()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def measure(port: int, count: int) -> list[tuple[str, str]]:
    queue: WorkQueue[Key] = WorkQueue()
    config = ClusterConfig(Cluster(f"http://127.0.0.1:{port}"))
    expect_many_objects()  # as the manager does
    before = resident()
    async with Client(config) as client:
        informer = Informer(
            client,
            served(VGPUDevice),
            indexers={
                "node": lambda it: [it.spec.node_name],
                "address": lambda it: [it.spec.address],
            },
        )
        changed = 0
        done = asyncio.Event()

        def on_change(old: VGPUDevice | None, new: VGPUDevice | None) -> None:
            nonlocal changed
            if obj := new or old:
                queue.add(key_of(obj))
            changed += old is not None
            if changed == count:
                done.set()

        informer.subscribe(on_change)
        cpu, wall = time.process_time(), time.perf_counter()
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        listed = time.process_time() - cpu, time.perf_counter() - wall
        held = resident()
        cpu, wall = time.process_time(), time.perf_counter()
        await done.wait()
        followed = time.process_time() - cpu, time.perf_counter() - wall
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return [
        ("objects", f"{len(informer.store):,}"),
        ("listed per CPU second", f"{count / listed[0]:,.0f}"),
        ("listed per second", f"{count / listed[1]:,.0f}"),
        ("events per CPU second", f"{count / followed[0]:,.0f}"),
        ("events per second", f"{count / followed[1]:,.0f}"),
        ("memory before", f"{before:.1f} MB"),
        ("memory with the list", f"{held:.1f} MB"),
        ("memory after the events", f"{resident():.1f} MB"),
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="default: 10000")
    count = parser.parse_args().objects
    header()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(count, theirs), daemon=True
    )
    server.start()
    rows = asyncio.run(measure(ours.recv(), count))
    server.terminate()
    table("An informer with two indexes and a queue", ("what", "value"), rows)


if __name__ == "__main__":
    main()
