"""A fleet at work: what the manager needs at rest, and how soon it follows changes.

The API server, with TLS and a database on the disk, and the manager are processes of their own, the
manager as `laneway manager` starts it. This one is everybody else: users, agents, KubeVirt and
kubelets, whose writes come at a steady rate. A latency is the time from before the write that
brings something about until a watcher has the manager's answer to it. What the API server takes to
answer a write is a part of that, and tells how busy the machine is. Requests are those that the
manager sent, watches included. `ledger` is a Node that is cordoned, until `/metrics` counts its
free devices as unhealthy. At the end the webhook is asked for 50 reviews a second of new VMs, and
the web interface for pages, one after the other.

Without numbers there are 100 nodes and 2,000 VMs; `--full` is 1,000 nodes and 20,000 VMs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
from support.busy_fleet import BusyFleet
from support.children import Child, start
from support.fleet_changes import Changes, Outcome, Seen
from support.fleet_objects import NAMESPACE
from support.fleet_roles import allow_everything, web, webhook
from support.programs import Program, program
from support.report import arguments, header, ms, percentile, table

from kapilite.storage.store import Store
from laneway.api import CoreNode
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.roles.install import install_crds, install_namespace
from laneway.simcluster.kubevirt import install as kubevirt

CHANGES_A_SECOND = 50
HEARTBEAT_SECONDS = 10
"""How often each node has one."""
CORDONS = 10
MB_AIM, REST_AIM, LATENCY_AIM = "1,500", "20 %", "500"


class Spent(NamedTuple):
    """What the manager has used so far."""

    moment: float
    cpu: float
    requests: int


class Measured(NamedTuple):
    """A manager, and the metrics that it serves."""

    manager: Program
    server: Child
    metrics: str

    async def spent(self) -> Spent:
        usage = await self.server.ask("usage")
        return Spent(time.perf_counter(), self.manager.cpu(), usage["measured"])

    async def settled(self) -> None:
        """Until it has sent no request for three seconds but the renewal of its lease."""
        while True:
            before = await self.spent()
            await asyncio.sleep(3)
            if (await self.spent()).requests - before.requests <= 3:
                return


async def prepare(directory: str, fleet: BusyFleet) -> int:
    """A database with the kinds and all objects; gives how many they are."""
    async with (
        start("api_server", directory) as server,
        Client(load(await server.answer())) as client,
    ):
        await install_crds(client)
        await install_namespace(client, NAMESPACE)
        await kubevirt.install(client)
        await allow_everything(client, "anna")
    store = Store(f"{directory}/state.db", history=1)
    count = fleet.fill(store)
    store.close()
    return count


@contextlib.asynccontextmanager
async def managed(kubeconfig: str, server: Child) -> AsyncIterator[Measured]:
    arguments = (
        *("--kubeconfig", f"{kubeconfig}.measured"),
        *("--webhook-certificates", "none"),
        *("--health-address", "127.0.0.1:0"),
        *("--log-format", "text"),
    )
    known = "the manager knows its cluster"
    async with program("laneway", "manager", *arguments, until=known) as manager:
        found = re.search(r"metrics on (127\.0\.0\.1) port (\d+)", "".join(manager.before))
        assert found is not None
        yield Measured(manager, server, f"http://{found[1]}:{found[2]}/metrics")


async def read(session: aiohttp.ClientSession, address: str) -> tuple[float, str]:
    """The metrics, and how many seconds they took."""
    began = time.perf_counter()
    async with session.get(address) as answer:
        text = await answer.text()
    return time.perf_counter() - began, text


async def until_told(session: aiohttp.ClientSession, address: str, pattern: str) -> list[float]:
    """Until a line of the metrics is so; how long each answer took."""
    took = []
    while True:
        seconds, text = await read(session, address)
        took.append(seconds)
        if re.search(pattern, text, re.MULTILINE):
            return took


def row(what: str, before: Spent, after: Spent, writes: int = 0) -> list[str]:
    seconds, requests = after.moment - before.moment, after.requests - before.requests
    return [
        what,
        f"{writes / seconds:.0f}",
        f"{(after.cpu - before.cpu) / seconds:.1%}",
        f"{requests / seconds:.1f}",
        f"{requests / writes:.2f}" if writes else "",
    ]


def latencies(outcome: Outcome) -> list[list[str]]:
    everything = [one for found in outcome.latencies.values() for one in found]
    rows = []
    for what, found in (*sorted(outcome.latencies.items()), ("all", everything)):
        numbers = [ms(percentile(found, at)) for at in (50, 99, 100)] if found else [""] * 3
        missed = sum(outcome.missed.values()) if what == "all" else outcome.missed.get(what, 0)
        rows.append([what, str(len(found)), *numbers, str(missed)])
    answers = outcome.answers
    return [*rows, ["a write: its answer", str(len(answers)), *_percentiles(answers), ""]]


async def cordons(measured: Measured, client: Client, fleet: BusyFleet) -> list[list[str]]:
    """How long until the ledger tells that nothing can start on a node any more."""
    nodes, took, answers = served(CoreNode), [], []
    async with aiohttp.ClientSession() as session:
        for node in fleet.nodes[:CORDONS]:
            pattern = rf'^laneway_ledger_devices{{node="{node}",.*state="unhealthy"}} [1-9]'
            began = time.perf_counter()
            await client.patch(nodes, node, {"spec": {"unschedulable": True}})
            answers += await until_told(session, measured.metrics, pattern)
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0.5)
    return [
        ["node is cordoned: the ledger", str(len(took)), *_percentiles(took), ""],
        ["an answer of /metrics", str(len(answers)), *_percentiles(answers), ""],
    ]


def _percentiles(found: list[float]) -> list[str]:
    return [ms(percentile(found, at)) for at in (50, 99, 100)]


async def measure(fleet: BusyFleet, seconds: float, luck: random.Random) -> None:
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        count = await prepare(directory, fleet)
        async with start("api_server", directory) as server:
            kubeconfig = await server.answer()
            began = time.perf_counter()
            async with contextlib.AsyncExitStack() as stack:
                measured = await stack.enter_async_context(managed(kubeconfig, server))
                ready = time.perf_counter() - began
                session = await stack.enter_async_context(aiohttp.ClientSession())
                await until_told(session, measured.metrics, "^laneway_ledger_devices{")
                told = time.perf_counter() - began
                await measured.settled()
                manager, first = measured.manager, await measured.spent()
                table(
                    f"the manager of {len(fleet.nodes):,} nodes, {len(fleet.vgpus):,} vGPUs and "
                    f"{len(fleet.vms):,} VMs: {count:,} objects",
                    ["start", "measured", "aim"],
                    [
                        ["ready", f"{ready:.1f} s", ""],
                        ["the ledger is told", f"{told:.1f} s", ""],
                        ["CPU", f"{first.cpu:.1f} s", ""],
                        ["requests", f"{first.requests:,}", ""],
                        ["memory", f"{manager.memory():,.0f} MB", MB_AIM],
                        ["memory, the most", f"{manager.peak():,.0f} MB", MB_AIM],
                    ],
                )
                client = await stack.enter_async_context(Client(load(kubeconfig)))
                seen = Seen(client)
                await stack.enter_async_context(seen.following())
                beats = Changes(client, fleet, seen, len(fleet.nodes) / HEARTBEAT_SECONDS, luck)
                changes = Changes(client, fleet, seen, CHANGES_A_SECOND, luck)
                rows = []
                before = await measured.spent()
                await asyncio.sleep(seconds)
                after = await measured.spent()
                rows.append(row(f"at rest (aim: {REST_AIM})", before, after))
                outcome = await beats.run(seconds, heartbeats_only=True)
                before, after = after, await measured.spent()
                rows.append(row("heartbeats", before, after, outcome.writes))
                outcome = await changes.run(2 * seconds)
                before, after = after, await measured.spent()
                rows.append(row("changes", before, after, outcome.writes))
                head = ["", "writes/s", "CPU", "requests/s", "each"]
                table("the manager, as a share of a core", head, rows)
                told_rows = latencies(outcome) + await cordons(measured, client, fleet)
                head = [f"in ms (aim: p99 {LATENCY_AIM})", "times", "p50", "p99", "max", "never"]
                table(f"after a change, at {CHANGES_A_SECOND} a second", head, told_rows)
                print(f"  memory then: {manager.memory():,.0f} MB, the most {manager.peak():,.0f}")
            rows = [await webhook(kubeconfig, fleet, seconds), await web(kubeconfig)]
            head = ["", "ready s", "p50 ms", "p99 ms", "max ms", "MB", "most MB"]
            table("the other roles", head, rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="1,000 nodes and 20,000 VMs")
    parser.add_argument("--nodes", type=int, default=100, help="default: 100")
    parser.add_argument("--gpus", type=int, default=8, help="of each node; default: 8")
    parser.add_argument("--machines", type=int, default=2000, help="default: 2000")
    parser.add_argument("--seconds", type=float, default=20, help="of rest; default: 20")
    asked = parser.parse_args()
    header()
    luck = random.Random(21)
    nodes, machines = (1000, 20_000) if asked.full else (asked.nodes, asked.machines)
    asyncio.run(measure(BusyFleet(nodes, asked.gpus, machines, luck), asked.seconds, luck))


if __name__ == "__main__":
    main()
