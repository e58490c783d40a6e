"""How soon a desired state for a vGPU is fulfilled and reported, and what it costs the API.

The agent and the embedded API server are processes of their own, this script desired states and
watches as a third. A vGPU is enabled on one function after the other, then disabled again. Measured
is from the moment before the spec is changed until a watcher has the configured status, less the
time that the driver took for its writes, and until it has the last sibling whose list of profiles
changed with it. Then the same is done in a row: each spec is changed as soon as the one before was
answered, while the siblings' lists are still being written.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

from support.children import Child, start
from support.installed import install
from support.report import arguments, header, ms, percentile, table
from support.vgpu_node import NODE

from laneway.api import VGPUDevice, find_condition
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served

HOSTS = {
    "a2": ("A2, mdev", "NVIDIA A2-4Q"),
    "l40s": ("2 L40S, vendor VFIO", "NVIDIA L40S-8Q"),
    "large": ("12 L40S, vendor VFIO", "NVIDIA L40S-8Q"),
}
AT_ONCE = 4
"""vGPUs that a GPU carries when the next one is enabled at the latest."""

_VGPU = served(VGPUDevice)


class Watcher:
    """The VGPUDevices of the node as they are, and when each changed last."""

    def __init__(self) -> None:
        self.objects: dict[str, VGPUDevice] = {}
        self.moments: dict[str, float] = {}
        """When each list of profiles changed last, by address."""
        self._changed = asyncio.Event()

    async def run(self, client: Client, since: str) -> None:
        async for event in client.watch(_VGPU, resource_version=since):
            if event.type != "BOOKMARK":
                self.put(_VGPU.decode(event.object))
                self._changed.set()

    def put(self, obj: VGPUDevice) -> None:
        before = self.objects.get(obj.spec.address)
        self.objects[obj.spec.address] = obj
        if before is None or before.status.available_types != obj.status.available_types:
            self.moments[obj.spec.address] = time.perf_counter()

    async def until_answered(self, address: str, generation: int) -> float:
        """When the desired state of this generation had its final answer, which must be a yes."""
        while True:
            obj = self.objects[address]
            ready = find_condition(obj.status.conditions, "Ready")
            if ready is not None and ready.observed_generation >= generation:
                if ready.reason in ("Configured", "NotConfigured"):
                    return time.perf_counter()
                if ready.reason != "InProgress":
                    raise SystemExit(f"{obj.metadata.name}: {ready.message}")
            await self._next()

    async def until_offered(self, offered: dict[str, list[str]]) -> None:
        """Wait until every object shows what the driver offers."""
        while any(
            sorted(self.objects[address].status.available_types) != sorted(names)
            for address, names in offered.items()
        ):
            await self._next()

    async def _next(self) -> None:
        self._changed.clear()
        await asyncio.wait_for(self._changed.wait(), 30)


class Times:
    """What was measured on one host."""

    def __init__(self) -> None:
        self.answered: list[float] = []
        self.reported: list[float] = []
        self.siblings = 0
        """Lists that changed, the vGPU's own apart."""


class Node(NamedTuple):
    """A node, and who looks at it."""

    client: Client
    agent: Child
    watcher: Watcher


async def answered(node: Node, address: str, profile: str, times: Times) -> tuple[float, float]:
    """Change a spec and wait for the answer; gives when it began, and the driver's time."""
    client, agent, watcher = node
    name = watcher.objects[address].metadata.name
    driver = (await agent.ask("usage"))["driver"]
    spec = {"enabled": bool(profile)} | ({"vGPUTypeName": profile} if profile else {})
    began = time.perf_counter()
    patched = await client.patch(_VGPU, name, {"spec": spec})
    ended = await watcher.until_answered(address, patched.metadata.generation)
    driver = (await agent.ask("usage"))["driver"] - driver
    times.answered.append(ended - began - driver)
    return began, driver


async def desired(node: Node, address: str, profile: str, times: Times) -> None:
    """The same, until all lists that change with it are there as well."""
    _, agent, watcher = node
    began, driver = await answered(node, address, profile, times)
    gpu = watcher.objects[address].spec.parent_gpu_device_address
    await watcher.until_offered(await agent.ask("offered", gpu))
    moments = [moment for moment in watcher.moments.values() if moment > began]
    times.reported.append(max([times.answered[-1], *(one - began - driver for one in moments)]))
    times.siblings += sum(
        moment > began for one, moment in watcher.moments.items() if one != address
    )


async def measure(host: str, desired_states: int, seconds: float) -> list[list[str]]:
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        server = await stack.enter_async_context(start("api_server", directory))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await install(client, NODE)
        agent = await stack.enter_async_context(start("vgpu_node", kubeconfig, host))
        await agent.answer()
        watcher, version = Watcher(), ""
        async for page in client.list(_VGPU):
            version = page.resource_version
            for item in page.items:
                watcher.put(_VGPU.decode(item))
        watching = asyncio.create_task(watcher.run(client, version))
        title, profile = HOSTS[host]
        parent = min(obj.spec.parent_gpu_device_address for obj in watcher.objects.values())
        addresses = sorted(
            address
            for address, obj in watcher.objects.items()
            if obj.spec.parent_gpu_device_address == parent
        )
        node = Node(client, agent, watcher)
        on, off = Times(), Times()
        before, quiet = await server.ask("usage"), await agent.ask("usage")
        for number in range(desired_states):
            at = number % AT_ONCE
            await desired(node, addresses[at], profile, on)
            if at == AT_ONCE - 1:
                for address in addresses[:AT_ONCE]:
                    await desired(node, address, "", off)
        await asyncio.sleep(2)  # Events are sent when there is nothing else to do.
        after, used = await server.ask("usage"), await agent.ask("usage")
        await asyncio.sleep(seconds)
        rest = await agent.ask("usage")
        in_a_row = Times()
        for number in range(desired_states):
            enabled = number // AT_ONCE % 2 == 0
            await answered(node, addresses[number % AT_ONCE], profile * enabled, in_a_row)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    count = len(on.answered) + len(off.answered)
    each = {
        kind: (used.get(kind, 0) - quiet.get(kind, 0)) / count
        for kind in ("reads", "writes", "events", "cpu")
    }
    lists = (on.siblings + off.siblings) / count
    asked = sum(rest.get(kind, 0) - used.get(kind, 0) for kind in ("reads", "writes", "events"))
    return [
        [
            title,
            *(ms(percentile(times, at)) for times in (on.answered, on.reported) for at in (50, 99)),
            *(
                ms(percentile(times, at))
                for times in (off.answered, off.reported, in_a_row.answered)
                for at in (50, 99)
            ),
        ],
        [
            title,
            f"{each['reads']:.1f}",
            f"{each['writes']:.1f}",
            f"{each['events']:.1f}",
            f"{lists:.1f}",
            ms(each["cpu"]),
            ms((after["cpu"] - before["cpu"]) / count),
            f"{asked * 3600 / seconds:.0f}",
            f"{(rest['cpu'] - used['cpu']) / seconds * 100:.1f}",
        ],
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--desired-states", type=int, default=40, help="on each host (default: 40)")
    parser.add_argument("--seconds", type=float, default=20, help="of quiet (default: 20)")
    parser.add_argument("hosts", nargs="*", default=list(HOSTS), help=", ".join(HOSTS))
    options = parser.parse_args()
    header()
    rows = [
        asyncio.run(measure(one, options.desired_states, options.seconds)) for one in options.hosts
    ]
    kinds = ("enabled", "to the last list", "disabled", "to the last list", "in a row")
    head = [f"{kind} {at}" for kind in kinds for at in ("p50", "p99")]
    table("From the change of the spec, in ms", ("host", *head), [one for one, _ in rows])
    head = ["reads", "writes", "events", "lists changed", "CPU ms", "API server's CPU ms"]
    head += ["requests an hour at rest", "CPU % at rest"]
    table("For each desired state, and at rest", ("host", *head), [one for _, one in rows])


if __name__ == "__main__":
    main()
