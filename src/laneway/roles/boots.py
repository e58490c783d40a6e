"""What runs on a simulated host ends when the host reboots, and begins again with the next boot.

On a real host the kernel sees to that: every process ends, and the kubelet and the agent's pod are
started anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.sim.host import SimulatedHost

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
                for one in (task, waiting):
                    one.cancel()
                await asyncio.gather(task, waiting, return_exceptions=True)
        if went_down is not None:
            await went_down()
        await asyncio.sleep(down_seconds)
        hardware = hardware._replace(state=open_state(hardware.state.path, hardware.host))
