"""Waiting until nothing uses a device that is to go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from laneway.changes.answered import denial
from laneway.changes.errors import RefusedError
from laneway.controllers.ledger.snapshot import look
from laneway.core.ledger.build import build
from laneway.core.ledger.ledger import State
from laneway.core.refusals import DeviceInUse
from laneway.core.use import Use, VmState
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, InvalidError

AGAIN_SECONDS = 1.0


async def users(client: Client, names: Sequence[str]) -> dict[str, tuple[Use, ...]]:
    """The VMs and pods that have devices, by the names of the devices' objects."""
    wanted = frozenset(names)
    found: dict[str, tuple[Use, ...]] = {}
    seen = await look(client)
    for stock in build(seen.facts).stocks.values():
        for name, taking in stock.taken.items():
            if name in wanted and taking.state is State.HELD:
                found[name] = (Use(taking.consumer, VmState.RUNS),)
    return found


async def released(
    client: Client, names: Sequence[str], attempt: Callable[[], Awaitable[object]], seconds: float
) -> None:
    """Wait until the devices have no users and the server would accept a change.

    `attempt`: the change, as a dry run. Raises RefusedError, which names the users, when they still
    have the devices after so many seconds.
    """
    end = asyncio.get_running_loop().time() + seconds
    while words := await _against(client, names, attempt):
        if asyncio.get_running_loop().time() >= end:
            raise RefusedError(*words)
        await asyncio.sleep(AGAIN_SECONDS)


async def _against(
    client: Client, names: Sequence[str], attempt: Callable[[], Awaitable[object]]
) -> list[str]:
    held = await users(client, names)
    if held:
        return [DeviceInUse(name, uses).words for name, uses in sorted(held.items())]
    try:
        await attempt()
    except (ForbiddenError, InvalidError) as error:
        if words := denial(error):
            return [words]
        raise
    return []
