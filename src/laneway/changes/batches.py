"""The same change of several devices: all are tried before the first is written.

A device is passed to VMs together with its IOMMU group, so half of a group is of no use: where a
write fails in the middle, the rest is left as it is, and what became of each is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from laneway.changes import claims
from laneway.changes.answered import may_have_happened, words_of
from laneway.changes.claims import Device
from laneway.kube.client import Client
from laneway.kube.errors import CredentialsError, KubeError, NotFoundError, UnauthorizedError

_AT_ONCE = 8


class Write(Protocol):
    """A change of one device: `claim` or `release`."""

    async def __call__(self, client: Client, device: Device, *, dry_run: bool) -> bool:
        """Whether anything has changed."""


class Result(NamedTuple):
    """What became of one device."""

    device: Device
    outcome: Literal["done", "unchanged", "refused", "unknown", "left"]
    """`unknown`: the answer was lost. `left`: not tried, because one before failed."""
    words: str = ""
    """Why."""


async def claim(client: Client, device: Device, *, dry_run: bool) -> bool:
    """Claim a device; False if it is claimed already."""
    return await claims.create(client, device, dry_run=dry_run) is not None


async def release(client: Client, device: Device, *, dry_run: bool) -> bool:
    """Delete the claim of a device; False if it has none."""
    try:
        await claims.delete(client, device, dry_run=dry_run)
    except NotFoundError:
        return False
    return True


async def tried(write: Write, client: Client, devices: Sequence[Device]) -> Mapping[str, Result]:
    """What would become of each device, by name. Nothing is written.

    Raises UnauthorizedError, CredentialsError: that is no answer about any device.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(device: Device) -> Result:
        async with turns:
            return await _result(write, client, device, dry_run=True)

    found = await asyncio.gather(*map(one, devices))
    return {result.device.name: result for result in found}


async def made(write: Write, client: Client, devices: Sequence[Device]) -> Sequence[Result]:
    """What became of each device; those after one that failed are left."""
    results: list[Result] = []
    for number, device in enumerate(devices):
        result = await _result(write, client, device, dry_run=False)
        results.append(result)
        if result.outcome in ("refused", "unknown"):
            return [*results, *(Result(one, "left") for one in devices[number + 1 :])]
    return results


async def _result(write: Write, client: Client, device: Device, *, dry_run: bool) -> Result:
    try:
        changed = await write(client, device, dry_run=dry_run)
    except KubeError as error:
        if dry_run and isinstance(error, UnauthorizedError | CredentialsError):
            raise
        is_lost = not dry_run and may_have_happened(error)
        return Result(device, "unknown" if is_lost else "refused", words_of(error))
    return Result(device, "done" if changed else "unchanged")
