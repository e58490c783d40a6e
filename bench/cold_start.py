"""What it costs when many agents start at once in a cluster that has a fleet already.

As after an upgrade of the DaemonSet, or when a rack gets its power back. The embedded API server is
a process of its own; its database holds a fleet of GPU nodes with a claim for every vGPU before it
starts. The agents are real, each on a simulated host of its own. They start twice: first on nodes
of which nothing is stored yet, then again, when all their objects are as they should be.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, closing
from typing import Any

from support.children import Child, start
from support.installed import NODES, install
from support.report import arguments, header, table

from kapilite.storage.store import Store
from laneway.api.crds import crds
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import Resource
from support import gpu_fleet

_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, dict[str, Any])


async def prepared(client: Client, nodes: list[str], *, selectable: bool) -> None:
    """The kinds and the agents' nodes are there; `selectable`: the server can choose claims."""
    await install(client, nodes[0])
    for node in nodes[1:]:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        await client.create(NODES, body)
    if selectable:
        return
    for crd in crds():
        for version in crd["spec"]["versions"]:
            if version.pop("selectableFields", None):
                await client.patch(_CRDS, crd["metadata"]["name"], {"spec": crd["spec"]})


async def start_all(server: Child, processes: list[Child], agents: int) -> dict[str, str]:
    """One start of all agents, by what is measured; with the requests of one by kind."""
    before, began = await server.ask("usage"), time.perf_counter()
    used = await asyncio.gather(*(process.ask("start") for process in processes))
    wall = time.perf_counter() - began
    after = await server.ask("usage")
    requests = after["requests"] - before["requests"]
    by_kind = Counter(after["by_kind"]) - Counter(before["by_kind"])
    rest = sum(number for what, number in by_kind.items() if number < agents)
    return {
        "until all are ready": f"{wall:.1f} s",
        "CPU of the API server": f"{after['cpu'] - before['cpu']:.1f} s",
        "CPU of an agent": f"{sum(one['cpu'] for one in used) / agents:.2f} s",
        "memory of a process": f"{max(one['memory'] for one in used):.1f} MB",
        "received by an agent": f"{(after['sent'] - before['sent']) / agents / 1e3:,.0f} kB",
        "requests of an agent": f"{requests / agents:,.1f}",
        **{
            f"  {what}": f"{number / agents:,.1f}"
            for what, number in sorted(by_kind.items())
            if number >= agents
        },
        "  others": f"{rest / agents:,.1f}",
    }


async def measure(options: Any) -> None:
    header()
    nodes = [f"rack-{number:03d}" for number in range(options.agents)]
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        with closing(Store(os.path.join(directory, "state.db"))) as store:
            fleet = gpu_fleet.fill(store, options.nodes, options.gpus)
            fleet += gpu_fleet.claim(store, options.nodes, options.gpus)
        server = await stack.enter_async_context(start("api_server", directory))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await prepared(client, nodes, selectable=not options.unselectable)
        processes = []
        for at in range(0, len(nodes), options.share):
            some = nodes[at : at + options.share]
            args = ("agents", kubeconfig, str(options.functions), *some)
            processes.append(await stack.enter_async_context(start(*args)))
        for process in processes:
            await process.answer()
        first = await start_all(server, processes, len(nodes))
        for process in processes:
            await process.ask("stop")
        again = await start_all(server, processes, len(nodes))
    rows = [(what, first.get(what, ""), again.get(what, "")) for what in first | again]
    table(
        f"{len(nodes)} agents, {options.share} in a process, on hosts with {options.functions} "
        f"functions; {fleet:,} objects of {options.nodes:,} other nodes",
        ("what", "first start", "again"),
        rows,
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--agents", type=int, default=20, help="(default: 20)")
    parser.add_argument("--share", type=int, default=5, help="agents in a process (default: 5)")
    parser.add_argument("--functions", type=int, default=100, help="of a host (default: 100)")
    parser.add_argument("--nodes", type=int, default=1000, help="of the fleet (default: 1,000)")
    parser.add_argument("--gpus", type=int, default=2, help="of each of them (default: 2)")
    parser.add_argument(
        "--unselectable",
        action="store_true",
        help="the server cannot choose claims by their node, as Kubernetes before 1.31",
    )
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
