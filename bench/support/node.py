"""Process: the agent of one node, composed as `laneway agent` does it.

    python -m support.node KUBECONFIG FUNCTIONS [TREE]

On the files below TREE, or without it on a simulated host with so many PCI functions. Says what it
has used when all devices are published. Then takes `usage`, and of a simulated host `unplug` and
`plug` of one disk; those are answered with the moment before.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from laneway.controllers.metrics import MetricFamilies
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import StateFolder
from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.kube.client import Client
from laneway.roles.agent import Agent
from laneway.roles.health import health_server
from support import in_cluster
from support.children import orders, say
from support.memory import resident

if TYPE_CHECKING:
    from laneway.sim.host import SimulatedHost

NODE = "bench"


def usage() -> dict[str, float]:
    return {"cpu": time.process_time(), "memory": resident()}


async def run(kubeconfig: str, functions: int, tree: str) -> None:
    simulated: SimulatedHost | None = None
    if not tree:
        # Only here, for an agent on real files does not have the simulation in memory.
        from support.server import DISK, large_server  # noqa: PLC0415 - only where it is needed

        simulated = large_server(functions)
    host: Host = simulated or RealHost(tree)
    families = MetricFamilies()
    state = tempfile.TemporaryDirectory()
    async with Client(in_cluster.found(kubeconfig)) as client:
        hardware = Hardware(host, LocalExecutor(), StateFolder(state.name, "bench"))
        agent = Agent(NODE, hardware, client, families)
        async with (
            health_server("127.0.0.1", 0, families.registry, list),
            asyncio.TaskGroup() as tasks,
        ):
            task = tasks.create_task(agent.run())
            await agent.ready.wait()
            say(usage())
            async for order in orders():
                if simulated is None or order == ["usage"]:
                    say(usage())
                    continue
                moment = time.perf_counter()
                if order == ["unplug"]:
                    blocks = simulated.unplug(DISK)
                else:
                    simulated.plug(blocks)
                say(moment)
            task.cancel()
    state.cleanup()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(run(sys.argv[1], int(sys.argv[2]), "".join(sys.argv[3:])))
