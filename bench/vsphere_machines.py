"""How long machines with a GPU take on vSphere, a hundred at once, and in a plain loop of pyVmomi.

The simulated vCenter has a GPU for each; its tasks take no time of their own, or as long as those
of a quick real one. The loop clones, attaches a device and powers on, one machine after the other,
each time waiting for the task; it is done when the last is on. Laneway is the manager in CAPV's
place with its default pace, a process of its own as is the API server; it is done when the last
VSphereMachine says Ready: on, with its device, and with an address.

Requests are all that vCenter was asked, waits for news included, and all that the API server was,
events included. The simulator and the API server have a share in the times, which on few cores is
no small one.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, NamedTuple

from support.children import start
from support.report import arguments, header, middle, table
from support.vcenter_user import user

from laneway.api import find_condition
from laneway.api.vsphere import VCenter
from laneway.kube import capv
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.informer import Informer
from laneway.kube.resource import served
from support import vsphere_site as site
from support.vcenter import Simulator

GPUS = 8
"""Of a host."""
LIMIT_SECONDS = 900
DELAYS: Mapping[str, Mapping[str, int]] = {
    "at once": {},
    "500, 100, 200 ms": {"CloneVM_Task": 500, "ReconfigVM_Task": 100, "PowerOnVM_Task": 200},
}
"""Of clone, reconfiguration and power-on."""


class Run(NamedTuple):
    """One way of making the machines."""

    times: list[float]
    """When each was done, from the beginning."""
    cpu: float
    """Of the loop or the manager."""
    memory: str
    requests: Mapping[str, int]
    """To vCenter."""
    api: tuple[float, float] = (0.0, 0.0)
    """What the API server has computed, in seconds, and the requests to it."""


@asynccontextmanager
async def simulated(count: int, delays: Mapping[str, int]) -> AsyncIterator[Simulator]:
    """A vCenter with a GPU for each machine."""
    hosts = -(-count // GPUS)
    gpus = site.t4s(hosts, GPUS)
    async with Simulator(gpus, hosts=hosts, vms=1, templates=site.TEMPLATES) as simulator:
        for method, milliseconds in delays.items():
            await asyncio.to_thread(simulator.delay, milliseconds, method)
        yield simulator


async def requests(simulator: Simulator) -> Mapping[str, int]:
    """How often each method was called so far."""
    counts: Mapping[str, int] = (await asyncio.to_thread(simulator.state))["requests"]
    return counts


async def since(before: Mapping[str, int], simulator: Simulator) -> Mapping[str, int]:
    after = await requests(simulator)
    return {name: after[name] - before.get(name, 0) for name in sorted(after)}


async def check(simulator: Simulator, count: int) -> None:
    """Each is on with one device, and none with more."""
    users = (await asyncio.to_thread(simulator.users)).values()
    names = [name for using in users for name in using]
    assert len(names) == len(set(names)) == count, (len(names), count)


# ---- the loop -----------------------------------------------------------------


def loop(simulator: Simulator, count: int) -> tuple[list[float], float]:
    with user(simulator) as own:
        began, worked, times = time.perf_counter(), time.process_time(), []
        for number in range(count):
            own.done(own.made(f"plain-{number}").PowerOnVM_Task(None))
            times.append(time.perf_counter() - began)
        return times, time.process_time() - worked


async def plain(count: int, delays: Mapping[str, int]) -> Run:
    async with simulated(count, delays) as simulator:
        before = await requests(simulator)
        times, worked = await asyncio.to_thread(loop, simulator, count)
        await check(simulator, count)
        return Run(times, worked, "-", await since(before, simulator))


# ---- Laneway ------------------------------------------------------------------


class Ready:
    """When objects of a kind have said Ready."""

    def __init__(self, informer: Informer[Any], count: int) -> None:
        self.times: dict[str, float] = {}
        self.all = asyncio.Event()
        self._count = count
        informer.subscribe(self._changed)

    def _changed(self, _: object, after: Any) -> None:
        said = find_condition(after.status.conditions, "Ready") if after is not None else None
        if said is not None and said.status == "True":
            self.times.setdefault(after.metadata.name, time.perf_counter())
            if len(self.times) == self._count:
                self.all.set()


async def laneway(count: int, delays: Mapping[str, int]) -> Run:
    async with AsyncExitStack() as stack:
        stack.enter_context(directory := tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        simulator = await stack.enter_async_context(simulated(count, delays))
        server = await stack.enter_async_context(start("api_server", directory.name))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await site.kinds(client)
        manager = await stack.enter_async_context(start("vsphere_manager", kubeconfig))
        await manager.answer()
        vcenters = Informer(client, served(VCenter))
        ours = Informer(client, capv.VSPHERE_MACHINES)
        known, ready = Ready(vcenters, 1), Ready(ours, count)
        async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as group:
            watches = [group.create_task(informer.run()) for informer in (vcenters, ours)]
            await site.vcenter(client, simulator)
            await site.cluster(client, simulator.server)
            owners = await site.machines(client, [f"laneway-{number}" for number in range(count)])
            await known.all.wait()
            used, asked = await manager.ask("usage"), await requests(simulator)
            before = await server.ask("usage")
            began = time.perf_counter()
            await site.vsphere_machines(client, owners)
            await ready.all.wait()
            usage, asked = await manager.ask("usage"), await since(asked, simulator)
            done = {name: now - before[name] for name, now in (await server.ask("usage")).items()}
            await check(simulator, count)
            for watch in watches:
                watch.cancel()
    times = sorted(moment - began for moment in ready.times.values())
    api = done["cpu"], done["requests"]
    return Run(times, usage["cpu"] - used["cpu"], f"{usage['memory']:.0f}", asked, api)


# ---- telling ------------------------------------------------------------------


def row(what: str, run: Run, count: int, others: float) -> tuple[str, ...]:
    asked = sum(run.requests.values()) / count
    times = (f"{run.times[-1]:.2f}", f"{run.times[0]:.2f}", f"{middle(run.times):.2f}")
    cpu = f"{run.cpu:.2f}", f"{run.api[0]:.2f}", f"{others:.2f}"
    return (what, *times, *cpu, run.memory, f"{asked:.1f}", f"{run.api[1] / count:.1f}")


async def measure(count: int, names: list[str]) -> None:
    head = (
        *("", "all s", "first", "median", "its CPU s", "API server's", "others'", "memory MB"),
        *("requests", "to the API"),
    )
    for name in names:
        rows, asked = [], []
        for what, make in (("a loop of pyVmomi", plain), ("Laneway", laneway)):
            before = getrusage(RUSAGE_CHILDREN)
            run = await make(count, DELAYS[name])
            after = getrusage(RUSAGE_CHILDREN)
            others = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            others -= run.api[0]
            others -= run.cpu if make is laneway else 0  # the manager is a child, the loop is not
            rows.append(row(what, run, count, others))
            asked.append(run.requests)
        table(f"{count} machines with a GPU each, tasks done {name}", head, rows)
        methods = sorted({method for counts in asked for method in counts if counts[method]})
        table(
            "Requests a machine",
            ("", "loop", "Laneway"),
            [(m, *(f"{counts.get(m, 0) / count:.2f}" for counts in asked)) for m in methods],
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--machines", type=int, default=100, help="default: 100")
    parser.add_argument("--tasks", nargs="+", choices=list(DELAYS), default=list(DELAYS))
    options = parser.parse_args()
    if not site.is_there():
        return
    header()
    asyncio.run(measure(options.machines, options.tasks))


if __name__ == "__main__":
    main()
