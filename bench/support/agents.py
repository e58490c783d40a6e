"""Process: agents of some nodes, each on a simulated host, composed as `laneway agent` does it.

    python -m support.agents KUBECONFIG FUNCTIONS NODE...

Says when the hosts are there. At `start` the agents start at once; that is answered when all of
them are ready, with what the process has used. `stop` ends them; another `start` restarts them.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from contextlib import AsyncExitStack

from laneway.controllers.metrics import MetricFamilies
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import StateFolder
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.roles.agent import Agent
from support.children import orders, say
from support.memory import resident
from support.server import large_server


async def start(stack: AsyncExitStack, kubeconfig: str, hosts: dict[str, Hardware]) -> None:
    """Run the agents until the stack is closed; gives when all are ready."""
    families = MetricFamilies()
    agents = []
    for node, hardware in hosts.items():
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        agents.append(Agent(node, hardware, client, families))
    tasks = await stack.enter_async_context(asyncio.TaskGroup())  # ends before the clients do
    for agent in agents:
        stack.callback(tasks.create_task(agent.run()).cancel)
    for agent in agents:
        await agent.ready.wait()


async def run(kubeconfig: str, functions: int, nodes: list[str]) -> None:
    with tempfile.TemporaryDirectory() as state:
        hosts = {
            node: Hardware(
                large_server(functions), LocalExecutor(), StateFolder(f"{state}/{node}", "bench")
            )
            for node in nodes
        }
        say(None)
        stack = AsyncExitStack()
        async for order in orders():
            if order == ["start"]:
                before = time.process_time()
                await start(stack, kubeconfig, hosts)
                say({"cpu": time.process_time() - before, "memory": resident()})
            else:
                await stack.aclose()
                say(None)
        await stack.aclose()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(run(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
