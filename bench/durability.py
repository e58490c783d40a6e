"""What the embedded API server needs after a long life: start, file and memory; and a cascade.

The changes are written straight into the store by a process that then kills itself, so a start
includes the recovery of SQLite's log. Time is from before the process is started until `/readyz`
has been answered over TLS. The history is full after 50,000 changes; `--changes 1000000` takes
minutes, and shows that more of them change nothing. In the cascade, one owner is deleted and its
dependents follow; the latencies are those of a client that requests `/readyz` all the while.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
import time
import uuid
from contextlib import AsyncExitStack
from typing import Any

import msgspec
from support.children import start
from support.report import arguments, header, middle, ms, percentile, table

from kapilite.storage.events import Key
from kapilite.storage.store import Store
from laneway.api import CoreNode
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import Resource

_CONFIGMAPS = Resource("", "v1", "configmaps", True, CoreNode)
_PATH = "/api/v1/namespaces/default/configmaps"
_TOGETHER = 50
_STARTS = 3
_IDLE = 0.1
"""CPU seconds a second that a server without work does not reach."""


def configmap(name: str, value: str, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": str(uuid.uuid4()),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **meta,
        },
        "data": {"value": value, "rest": "x" * 800},
    }


def change(path: str, objects: int, changes: int) -> None:
    """Change the objects in turn, and be killed."""
    store = Store(path)
    stored = {}
    for first in range(0, changes, _TOGETHER):
        with store.transaction():
            for number in range(first, first + _TOGETHER):
                name = f"c-{number % objects}"
                before = stored.get(name)
                what = "MODIFIED" if before else "ADDED"
                key = Key("configmaps", "default", name)
                stored[name] = store.commit(what, key, configmap(name, str(number)), before)
    os.kill(os.getpid(), signal.SIGKILL)


def own(path: str, dependents: int) -> None:
    """One owner, `c-0`, and so many objects of it."""
    store = Store(path)
    owner = configmap("c-0", "")
    store.commit("ADDED", Key("configmaps", "default", "c-0"), owner, None)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c-0", "uid": owner["metadata"]["uid"]}
    with store.transaction():
        for number in range(dependents):
            name = f"d-{number}"
            obj = configmap(name, "", ownerReferences=[ref], labels={"of": "c-0"})
            store.commit("ADDED", Key("configmaps", "default", name), obj, None)
    store.close()


def apart(what: Any, *args: Any) -> None:
    """Run it in a process of its own: what it holds in memory goes with it."""
    process = multiprocessing.get_context("fork").Process(target=what, args=args)
    process.start()
    process.join()


def megabytes(path: str) -> str:
    return f"{os.path.getsize(path) / 1e6:.1f}" if os.path.exists(path) else "-"


async def starts(what: str, directory: str) -> tuple[str, ...]:
    path = os.path.join(directory, "state.db")
    sizes = [megabytes(path), megabytes(f"{path}-wal")]
    took, used = [], {}
    for _ in range(_STARTS):
        began = time.perf_counter()
        async with start("api_server", directory) as server:
            async with Client(load(await server.answer())) as client:
                await client.raw("/readyz")
            took.append(time.perf_counter() - began)
            used = await server.ask("usage")
    times = (ms(middle(took)), ms(max(took)), ms(used["cpu"]))
    return (what, *times, *sizes, f"{used['memory']:.1f}")


async def cascade(directory: str) -> tuple[str, ...]:
    asked = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(start("api_server", directory))
        client = await stack.enter_async_context(Client(load(await server.answer())))
        # The dependents are looked at once after they have come; that is not what is measured.
        cpu = -1.0
        while (used := (await server.ask("usage"))["cpu"]) - cpu > _IDLE:
            cpu = used
            await asyncio.sleep(1)
        began = time.perf_counter()
        await client.delete(_CONFIGMAPS, "c-0", "default")
        while await left(client):
            at = time.perf_counter()
            await client.raw("/readyz")
            asked.append(time.perf_counter() - at)
        took = time.perf_counter() - began
        used = (await server.ask("usage"))["cpu"] - used
    return (f"{took:.2f}", f"{used:.2f}", *(ms(percentile(asked, at)) for at in (50, 99, 100)))


async def left(client: Client) -> int:
    """How many of the dependents there are."""
    body = await client.raw(_PATH, {"limit": "1", "labelSelector": "of"})
    return len(msgspec.json.decode(body)["items"])


async def run(objects: int, changes: int, dependents: int) -> None:
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        rows = [await starts("an empty store", directory)]
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        began = time.perf_counter()
        apart(change, os.path.join(directory, "state.db"), objects, changes)
        print(f"{changes:,} changes of {objects:,} objects in {time.perf_counter() - began:.0f} s")
        rows.append(await starts(f"{changes:,} changes, then kill -9", directory))
    head = ("Start", "median ms", "worst ms", "server CPU ms", "file MB", "log MB", "memory MB")
    table("Until /readyz is answered", head, rows)
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        apart(own, os.path.join(directory, "state.db"), dependents)
        row = (f"{dependents:,} dependents", *await cascade(directory))
    head = ("Deleted", "s", "CPU s", "answer p50 ms", "p99 ms", "worst ms")
    table("Cascade, in the background", head, [row])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--changes", type=int, default=200_000, help="default: 200000")
    parser.add_argument("--objects", type=int, default=1_000, help="default: 1000")
    parser.add_argument("--dependents", type=int, default=10_000, help="default: 10000")
    options = parser.parse_args()
    header()
    asyncio.run(run(options.objects, options.changes, options.dependents))


if __name__ == "__main__":
    main()
