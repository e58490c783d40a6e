"""Process: the agent of one node with GPUs, on a simulated host.

    python -m support.vgpu_node KUBECONFIG SPEC|large|passthrough [FOLDER]

FOLDER is that of the node's kubelet, if it has one. Says what it has used when all devices are
published. Then takes `usage`, which also tells the requests so far and the seconds that the driver
took for writes, and `offered GPU`, the profiles that the driver offers on each function of a GPU,
which is read as cheaply as can be.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from typing import Any, ClassVar

from laneway.controllers.metrics import MetricFamilies
from laneway.core.pci import PciAddress
from laneway.host.hardware import Hardware
from laneway.host.plans.state import StateFolder
from laneway.host.scan import scan
from laneway.host.vgpu import look_at_card
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.roles.agent import Agent
from laneway.sim.spec import build, parse_spec
from support.children import orders, say
from support.memory import resident
from support.server import large_server, passthrough_server

NODE = "bench"
LARGE = 12 * 34 + 40
"""PCI functions of a server with twelve L40S."""
GPUS = 8
"""Of a server whose GPUs are given to VMs as they are."""


class CountingClient(Client):
    """Tells its requests by what they are for; watches are not counted."""

    requests: ClassVar[Counter[str]] = Counter()

    async def call(self, method: str, path: str, *args: Any) -> bytes:
        kind = "events" if "/events" in path else "reads" if method == "GET" else "writes"
        self.requests[kind] += 1
        return await super().call(method, path, *args)


class TimedHost:
    """A simulated host that tells how long writes took."""

    def __init__(self, spec: str) -> None:
        self._host: Any
        match spec:
            case "large":
                self._host = large_server(LARGE)
            case "passthrough":
                self._host = passthrough_server(GPUS)
            case _:
                self._host = build(parse_spec(spec), NODE)
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        began = time.perf_counter()
        try:
            await self._host.write_within(path, data, seconds)
        finally:
            self.seconds += time.perf_counter() - began


async def run(kubeconfig: str, spec: str, kubelet: str = "") -> None:
    host: Any = TimedHost(spec)

    def usage() -> dict[str, float]:
        used = {"cpu": time.process_time(), "memory": resident(), "driver": host.seconds}
        return used | CountingClient.requests

    with tempfile.TemporaryDirectory() as state:
        async with CountingClient(load(kubeconfig)) as client:
            hardware = Hardware(host, host, StateFolder(state, "bench"))
            agent = Agent(NODE, hardware, client, MetricFamilies(), kubelet=kubelet)
            task = asyncio.create_task(agent.run())
            await agent.ready.wait()
            known = scan(host)
            say(usage())
            async for order in orders():
                if order == ["usage"]:
                    say(usage())
                else:
                    gpu = PciAddress.parse(order[1])
                    known = look_at_card(host, known, gpu) or scan(host)
                    vgpus = [one for one in known.vgpus if one.parent == gpu]
                    say({str(one.address): [kind.name for kind in one.creatable] for one in vgpus})
            task.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(run(*sys.argv[1:]))
