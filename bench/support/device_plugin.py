"""Process: the device plugins of a node, without the rest of its agent.

    python -m support.device_plugin FOLDER RESOURCE DEVICES

Offers so many functions, four to a card, each in a group of its own. Then takes `usage`, and
`offer DEVICES` and `spoil`, which makes one device unhealthy or healthy again; those are answered
with the moment before.
"""

from __future__ import annotations

import asyncio
import sys
import time

from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.pci import PciAddress
from laneway.kubelet.plugins import Plugins
from support.children import orders, say
from support.memory import resident


def offers(resource: str, count: int, *, spoilt: bool = False) -> list[Offer]:
    made = []
    for number in range(count):
        address = PciAddress(0, 1 + number // 4, number % 4, 0)
        made.append(
            Offer(
                resource=resource,
                id=str(address),
                form=Form.PCI,
                kind="PCIDevice",
                name=f"bench-{number}",
                address=address,
                card=address._replace(device=0),
                group=number,
                numa_node=number * 2 // count,
                unhealthy="spoilt" if spoilt and not number else "",
            )
        )
    return made


async def run(folder: str, resource: str, devices: str) -> None:
    plugins = Plugins(folder)
    running = asyncio.create_task(plugins.run())
    plugins.offer(offers(resource, int(devices)))
    spoilt = False
    say({})
    async for order in orders():
        if order == ["usage"]:
            say({"cpu": time.process_time(), "memory": resident()})
            continue
        if order == ["spoil"]:
            spoilt = not spoilt
        else:
            devices = order[1]
        began = time.perf_counter()
        plugins.offer(offers(resource, int(devices), spoilt=spoilt))
        say(began)
    running.cancel()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
