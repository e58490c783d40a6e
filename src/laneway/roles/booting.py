"""What runs on a simulated host ends when the host reboots, and begins again with the next boot.

On a real host the kernel sees to that: every process ends, and the kubelet and the agent's pod are
started again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from laneway.controllers.metrics import MetricFamilies
from laneway.controllers.timing import Timing
from laneway.core.tracing import Tracer
from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.kube.client import Client
from laneway.roles.agent import Agent
from laneway.roles.hosts import NodeHost
from laneway.sim.host import SimulatedHost
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.simcluster.node import NodeKubelet, say_silent
from laneway.simcluster.runtime import Runtime

DOWN_SECONDS = 3.0
"""From a reboot to the first program of the next boot; servers take minutes."""


@contextlib.asynccontextmanager
async def _reboots(hardware: Hardware) -> AsyncIterator[asyncio.Event]:
    """An event that is set once the host has rebooted; never for a real one."""
    rebooted, host = asyncio.Event(), hardware.host
    if not isinstance(host, SimulatedHost):
        yield rebooted
        return
    loop = asyncio.get_running_loop()

    def tell() -> None:
        loop.call_soon_threadsafe(rebooted.set)

    host.reboots.append(tell)
    try:
        yield rebooted
    finally:
        host.reboots.remove(tell)


async def in_each_boot(
    hardware: Hardware,
    work: Callable[[Hardware], Awaitable[None]],
    went_down: Callable[[], Awaitable[None]] | None = None,
    *,
    down_seconds: float = DOWN_SECONDS,
) -> None:
    """Run work on a host, and again from its beginning after each reboot, until cancelled.

    It gets the host with the state folder of the boot. `went_down` runs right after a reboot.
    """
    while True:
        async with _reboots(hardware) as rebooted:
            task = asyncio.ensure_future(work(hardware))
            waiting = asyncio.ensure_future(rebooted.wait())
            try:
                await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    return await task
            finally:
                await _end({task, waiting})
        if went_down is not None:
            await went_down()
        await asyncio.sleep(down_seconds)
        hardware = hardware._replace(state=open_state(hardware.state.path, hardware.host))


async def _end(tasks: set[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait for their ends, which a second cancellation does not cut short."""
    for task in tasks:
        task.cancel()
    ends = asyncio.ensure_future(asyncio.wait(tasks))
    try:
        await asyncio.shield(ends)
    except asyncio.CancelledError:
        await ends
        raise
    finally:
        for task in tasks:
            if not task.cancelled():
                task.exception()  # it is the work's own, and was not waited for


class HostAgent:
    """The agent of a host, in each of its boots."""

    def __init__(
        self,
        host: NodeHost,
        client: Client,
        families: MetricFamilies,
        *,
        dra: bool = False,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        down_seconds: float = DOWN_SECONDS,
        tracer: Tracer | None = None,
    ) -> None:
        self.node = host.node
        self.ready = asyncio.Event()
        """Set once the first has published its devices."""
        self._tracer = tracer
        self._host = host
        self._client = client
        self._families = families
        self._dra = dra
        self._timing = timing
        self._down_seconds = down_seconds

    async def run(self) -> None:
        """Run until cancelled."""
        await in_each_boot(self._host.hardware, self._boot, down_seconds=self._down_seconds)

    async def _boot(self, hardware: Hardware) -> None:
        agent = Agent(
            self.node,
            hardware,
            self._client,
            self._families,
            self._host.kubelet,
            files=hardware,
            dra=self._dra,
            timing=self._timing,
            tracer=self._tracer,
        )
        if not self.ready.is_set():
            agent.ready = self.ready
        await agent.run()


class HostKubelet:
    """The kubelet of a node, in each boot of its host."""

    def __init__(
        self,
        host: NodeHost,
        client: Client,
        runtime: Runtime,
        *,
        down_seconds: float = DOWN_SECONDS,
    ) -> None:
        self.ready = asyncio.Event()
        """Set once the first takes pods."""
        self._host = host
        self._client = client
        self._runtime = runtime
        self._down_seconds = down_seconds

    async def run(self) -> None:
        """Run until cancelled."""
        await in_each_boot(
            self._host.hardware, self._boot, self._went_down, down_seconds=self._down_seconds
        )

    async def _boot(self, _hardware: Hardware) -> None:
        kubelet = Kubelet(self._host.kubelet)
        node = NodeKubelet(self._host.node, self._client, kubelet, self._runtime)
        node.ready = self.ready
        await node.run()

    async def _went_down(self) -> None:
        self._runtime.reboot()
        await say_silent(self._client, self._host.node)
