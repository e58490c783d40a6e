"""How fast the GPUs of a vCenter are known, and how soon one change of them.

The simulated vCenter of the tests, a process of its own, has clusters full of hosts with eight
GPUs each, half of them for whole machines, half shared, besides the forty ordinary PCI devices of a
host. Measured is what `follow` takes from its call until all hosts are reported, with the profiles
of each requested, and from a change in vCenter until its host is reported. Memory is that of this
process: what the first load needs at most, and what stays. The simulator has a share in all times,
which on few cores is no small one.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time

from support.memory import resident
from support.report import arguments, header, ms, percentile, table

from laneway.vsphere.port import Credentials
from laneway.vsphere.vcenter import connect
from support import vsphere_site as site
from support.vcenter import Simulator

CLUSTERS = 4
CHANGES = 30


def peak() -> float:
    """The most memory that this process ever had, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def processor() -> float:
    return time.process_time()


async def measure(hosts: int, gpus: int) -> list[str]:
    each = hosts // CLUSTERS
    inventory = site.mixed(CLUSTERS, each, gpus)
    names = [*inventory]
    async with Simulator(inventory, clusters=CLUSTERS, hosts=each, vms=1) as simulator:
        user = Credentials(simulator.user, simulator.password, simulator.thumbprint)
        async with await connect(simulator.server, user) as vcenter:
            before = resident()
            began, worked = time.perf_counter(), processor()
            news = vcenter.follow()
            first = await anext(news)
            loaded, worked = time.perf_counter() - began, processor() - worked
            assert len([host for host in first.hosts if host.devices and host.shared_gpus]) == len(
                names
            )
            del first
            gc.collect()
            kept = resident() - before
            delays = []
            for name in names[:: max(1, len(names) // CHANGES)]:
                began = time.perf_counter()
                await asyncio.to_thread(simulator.change_host, name, maintenance=True)
                changed = await anext(news)
                delays.append(time.perf_counter() - began)
                assert [host.name for host in changed.hosts] == [name]
            await news.aclose()
    return [
        f"{len(names)} x {gpus}",
        f"{loaded:.2f}",
        f"{worked:.2f}",
        ms(percentile(delays, 50)),
        ms(percentile(delays, 95)),
        f"{kept:.0f}",
        f"{peak() - before:.0f}",
    ]


async def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--gpus", type=int, default=8)
    given = parser.parse_args()
    if not site.is_there():
        return
    header()
    rows = [await measure(hosts, given.gpus) for hosts in given.hosts]
    head = ["hosts x GPUs", "first load s", "CPU s", "change ms", "95 %", "kept MB", "peak MB"]
    table("the inventory of a vCenter", head, rows)


if __name__ == "__main__":
    asyncio.run(main())
