"""How soon the objects of a vCenter's hosts tell of its GPUs, and what the manager needs for it.

The manager is a process of its own, as are the simulated vCenter and the API server. Measured is
from the creation of a VCenter object until a watcher sees all hosts with their devices, and from a
change in vCenter until it sees that in the host's object: another label of a device, and the end of
the task by which a VM with a device is switched on. Memory is the manager's, all that it has; bytes
are those of the list of objects. The simulator and the API server have a share in all times, which
on few cores is no small one.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from support.children import start
from support.report import arguments, header, ms, percentile, table
from support.vcenter_user import User, user

from laneway.api.vsphere import VSphereHost
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.informer import Informer
from laneway.kube.resource import served
from support import vsphere_site as site
from support.vcenter import Simulator

CLUSTERS = 4
CHANGES = 20
LIMIT_SECONDS = 300

_HOSTS = served(VSphereHost)


class Seen:
    """The objects of hosts, as a watcher sees them."""

    def __init__(self, informer: Informer[VSphereHost]) -> None:
        self._store = informer.store
        self._changed = asyncio.Event()
        informer.subscribe(lambda _old, _new: self._changed.set())

    async def until(self, holds: Callable[[VSphereHost], bool], count: int = 1) -> None:
        """So many of them are like that."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while sum(map(holds, self._store)) < count:
                self._changed.clear()
                await self._changed.wait()


async def labels(simulator: Simulator, seen: Seen, hosts: list[str]) -> list[float]:
    times = []
    for at, host in enumerate(hosts):
        label = f"lab-{at}"
        began = time.perf_counter()
        await asyncio.to_thread(simulator.change_device, host, site.address(0), label=label)
        await seen.until(lambda one, label=label: _has(one, lambda d: d.label == label))
        times.append(time.perf_counter() - began)
    return times


async def starts(own: User, seen: Seen, count: int) -> list[float]:
    times = []
    for at in range(count):
        vm = await asyncio.to_thread(own.made, f"bench-{at}")
        ref = vm._moId  # noqa: SLF001 - how pyVmomi names a reference
        await asyncio.to_thread(lambda vm=vm: own.done(vm.PowerOnVM_Task(None)))
        began = time.perf_counter()
        await seen.until(lambda one, ref=ref: _has(one, lambda d: d.vm == ref))
        times.append(time.perf_counter() - began)
    return times


def _has(host: VSphereHost, holds: Callable[..., bool]) -> bool:
    return any(map(holds, host.status.devices))


async def measure(hosts: int, gpus: int) -> tuple[str, ...]:
    each = hosts // CLUSTERS
    inventory = site.mixed(CLUSTERS, each, gpus)
    async with AsyncExitStack() as stack:
        simulator = await stack.enter_async_context(
            Simulator(inventory, clusters=CLUSTERS, hosts=each, vms=1, templates=site.TEMPLATES)
        )
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        server = await stack.enter_async_context(start("api_server", directory))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await site.kinds(client)
        manager = await stack.enter_async_context(start("vsphere_manager", kubeconfig))
        before = (await manager.answer())["memory"]
        informer = Informer(client, _HOSTS)
        seen = Seen(informer)
        watch = asyncio.create_task(informer.run())
        began = time.perf_counter()
        await site.vcenter(client, simulator)
        await seen.until(lambda one: bool(one.status.boards and one.status.devices), len(inventory))
        loaded = time.perf_counter() - began
        used = await manager.ask("usage")
        size = len(await client.raw(_HOSTS.path()))
        changed = await labels(simulator, seen, [*inventory][:: max(1, hosts // CHANGES)])
        own = await asyncio.to_thread(stack.enter_context, user(simulator))
        started = await starts(own, seen, CHANGES)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    return (
        f"{len(inventory)} x {gpus}",
        f"{loaded:.2f}",
        f"{used['cpu']:.2f}",
        *(ms(percentile(times, at)) for times in (changed, started) for at in (50, 95)),
        f"{before:.0f}",
        f"{used['memory']:.0f}",
        f"{size:,}",
    )


async def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--gpus", type=int, default=8)
    given = parser.parse_args()
    if not site.is_there():
        return
    header()
    rows = [await measure(hosts, given.gpus) for hosts in given.hosts]
    head = ("hosts x GPUs", "all told s", "its CPU s", "label ms", "95 %", "power-on ms", "95 %")
    table("Objects of a vCenter's hosts", (*head, "MB before", "MB after", "bytes"), rows)


if __name__ == "__main__":
    asyncio.run(main())
