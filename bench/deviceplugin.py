"""How fast a kubelet is answered, and how soon it has what became ready.

The plugins are a process of their own; this script is the kubelet, with the simulated one's
listening side, over the real sockets. The times are those of the caller, so they hold its own
share, which for a kubelet in Go is less. In the second part the agent and the embedded API server
are processes, on a simulated host without KubeVirt: from before a claim is made until its device
is allocatable, and from before the claim is deleted until it is not, less the time that the driver
took for its writes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from support.children import Child, start
from support.installed import install
from support.report import arguments, header, ms, percentile, table
from support.server import passthrough_server
from support.vgpu_node import GPUS, NODE

from laneway.api import PCIDeviceClaim
from laneway.api.kubelet.deviceplugin_grpc import DevicePluginStub
from laneway.api.kubelet.deviceplugin_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
)
from laneway.core import names
from laneway.core.pci import NVIDIA
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.kubelet.sockets import endpoint
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.sockets import Dialled

RESOURCE = "nvidia.com/NVIDIA_L40S-8Q"
PERCENTS = (50, 99, 100)
QUIET_SECONDS = 10.0


class Counts:
    """What a kubelet has, and when it had it."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._changed = asyncio.Event()
        kubelet.subscribe(self._changed.set)

    async def until(self, resource: str, count: int) -> float:
        while self._kubelet.allocatable.get(resource, 0) != count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 30)
        return time.perf_counter()


@asynccontextmanager
async def kubelet(folder: str) -> AsyncIterator[Kubelet]:
    one = Kubelet(folder)
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def answered(devices: int, calls: int) -> tuple[list[list[str]], list[list[str]], str]:
    """Rows of what calls took, and of how soon the kubelet had changes; how much the rest took."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        counts = Counts(await stack.enter_async_context(kubelet(folder)))
        plugins = await stack.enter_async_context(
            start("device_plugin", folder, RESOURCE, str(devices))
        )
        await plugins.answer()
        await counts.until(RESOURCE, devices)
        place = os.path.join(folder, "device-plugins")
        channel = await stack.enter_async_context(Dialled(place, endpoint(RESOURCE), "localhost"))
        stub = DevicePluginStub(channel)
        ids = [f"0000:{1 + one // 4:02x}:{one % 4:02x}.0" for one in range(devices)]

        def allocate(at: int, size: int) -> Callable[[], Awaitable[Any]]:
            chosen = [ids[(at * size + one) % devices] for one in range(size)]
            asked = ContainerAllocateRequest(devicesIDs=chosen)
            return lambda: stub.Allocate(AllocateRequest(container_requests=[asked]))

        def prefer(at: int, size: int) -> Callable[[], Awaitable[Any]]:
            asked = ContainerPreferredAllocationRequest(
                available_deviceIDs=ids[at % 4 :], allocation_size=size
            )
            return lambda: stub.GetPreferredAllocation(
                PreferredAllocationRequest(container_requests=[asked])
            )

        rows = []
        for title, make, size in (
            ("Allocate 1", allocate, 1),
            ("Allocate 8", allocate, 8),
            ("GetPreferredAllocation of 1", prefer, 1),
            ("GetPreferredAllocation of 8", prefer, 8),
        ):
            before = await plugins.ask("usage")
            times = [await timed(make(at, size)) for at in range(calls)]
            cpu = (await plugins.ask("usage"))["cpu"] - before["cpu"]
            numbers = [percentile(times, percent) for percent in PERCENTS]
            rows.append([title, *map(ms, [*numbers, cpu / calls])])
        used = await plugins.ask("usage")
        await asyncio.sleep(QUIET_SECONDS)
        rest = await plugins.ask("usage")
        quiet = (
            f"At rest {(rest['cpu'] - used['cpu']) / QUIET_SECONDS * 100:.2f} % of a core, "
            f"{rest['memory']:.0f} MB."
        )
        return rows, await changes(plugins, counts, devices, max(1, calls // 20)), quiet


async def changes(plugins: Child, counts: Counts, devices: int, count: int) -> list[list[str]]:
    """How soon the kubelet has what the plugins have."""
    times: dict[str, list[float]] = {"health of one": [], "all withdrawn": [], "all offered": []}

    async def measure(title: str, order: str, then: int) -> None:
        began = await plugins.ask(*order.split())
        times[title].append(await counts.until(RESOURCE, then) - began)

    for _ in range(count):
        await measure("health of one", "spoil", devices - 1)
        await measure("health of one", "spoil", devices)
    for _ in range(count):
        await measure("all withdrawn", "offer 0", 0)
        await measure("all offered", f"offer {devices}", devices)
    return [
        [title, *(ms(percentile(one, percent)) for percent in PERCENTS)]
        for title, one in times.items()
    ]


async def claimed(rounds: int) -> list[list[str]]:
    """How soon a claimed GPU can be requested, and is gone again."""
    known = scan(passthrough_server(GPUS)).functions
    gpus = [one.address for one in known if one.vendor == NVIDIA]
    resource = names.resource_name_of(next(one for one in known if one.address == gpus[0]))
    ready, gone = [], []
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="laneway-bench-"))
        counts = Counts(await stack.enter_async_context(kubelet(folder)))
        server = await stack.enter_async_context(start("api_server", folder))
        kubeconfig = await server.answer()
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        await install(client, NODE)
        agent = await stack.enter_async_context(
            start("vgpu_node", kubeconfig, "passthrough", folder)
        )
        await agent.answer()

        async def measure(times: list[float], change: Awaitable[Any], then: int) -> None:
            driver = (await agent.ask("usage"))["driver"]
            began = time.perf_counter()
            await change
            taken = await counts.until(resource, then) - began
            times.append(taken - (await agent.ask("usage"))["driver"] + driver)

        objects = [names.pci_object_name(NODE, address) for address in gpus]
        for _ in range(rounds):
            for held, (name, address) in enumerate(zip(objects, gpus, strict=True)):
                claim = {
                    "apiVersion": "devices.harvesterhci.io/v1beta1",
                    "kind": "PCIDeviceClaim",
                    "metadata": {"name": name},
                    "spec": {"address": str(address), "nodeName": NODE, "userName": "bench"},
                }
                await measure(ready, client.create(served(PCIDeviceClaim), claim), held + 1)
            await until(client, lambda found: all(one.status.passthrough_enabled for one in found))
            for left, name in enumerate(objects, 1):
                delete = client.delete(served(PCIDeviceClaim), name)
                await measure(gone, delete, len(objects) - left)
            await until(client, lambda found: not found)
    return [
        [title, *(ms(percentile(times, percent)) for percent in PERCENTS)]
        for title, times in (("claimed, allocatable", ready), ("deleted, no longer", gone))
    ]


async def until(client: Client, holds: Callable[[list[PCIDeviceClaim]], bool]) -> None:
    """Wait for what is not measured, so that it is over before the next one is."""
    kind = served(PCIDeviceClaim)

    async def found() -> list[PCIDeviceClaim]:
        return [kind.decode(item) async for page in client.list(kind) for item in page.items]

    while not holds(await found()):  # noqa: ASYNC110 - nothing that is measured hangs on it
        await asyncio.sleep(0.05)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--devices", type=int, default=256, help="(default: 256)")
    parser.add_argument("--calls", type=int, default=2000, help="of each kind (default: 2000)")
    parser.add_argument("--rounds", type=int, default=10, help="of claiming all GPUs (default: 10)")
    options = parser.parse_args()
    header()
    calls, changed, quiet = asyncio.run(answered(options.devices, options.calls))
    head = ["p50", "p99", "worst"]
    table(
        f"A kubelet's calls, {options.devices} devices, in ms",
        ["call", *head, "plugin's CPU"],
        calls,
    )
    table("Until the kubelet has a change, in ms", ["change", *head], changed)
    print(f"\n{quiet}")
    claims = asyncio.run(claimed(options.rounds))
    table(f"PCIDeviceClaims of {GPUS} GPUs, in ms", ["from, until", *head], claims)


if __name__ == "__main__":
    main()
