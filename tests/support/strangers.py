"""Machines in a vCenter that Laneway does not manage; they take reserved devices."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from laneway.core.vsphere.inventory.vms import DynamicBacking
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.port import (
    Addition,
    Clone,
    Credentials,
    Place,
    Reconfiguration,
    VCenter,
    VCenterError,
)
from laneway.vsphere.vcenter import connect
from support.vcenter import Simulator

SECONDS = 2.0
"""Strangers do not wait for long."""
T4 = PciIds(0x10DE, 0x1EB8)


class Strangers:
    """They come and go."""

    def __init__(self, vcenter: VCenter) -> None:
        self._vcenter = vcenter
        self._number = 0
        self._there: list[str] = []

    async def come(self, cluster: str) -> str:
        """One takes a T4, if it can; its name is like those of VMs that were always there."""
        self._number += 1
        clone = Clone(
            name=f"DC0_stranger-{self._number}",
            template="ubuntu-with-t4",
            place=Place(datacenter="DC0", resource_pool=f"{cluster}/Resources"),
            instance_uuid=f"00000000-0000-4000-8000-{self._number:012}",
            cpus=1,
            cores_per_socket=1,
            memory_mib=1024,
            lock_memory=True,
        )
        with contextlib.suppress(VCenterError, TimeoutError):
            async with asyncio.timeout(SECONDS):
                made = await self._vcenter.finished(await self._vcenter.clone(clone))
                self._there.append(made.result)
                add = Reconfiguration((Addition(-200, DynamicBacking((T4,))),))
                state = (await self._vcenter.look([made.result]))[made.result]
                if not state.devices:
                    await self._vcenter.finished(await self._vcenter.reconfigure(state.ref, add))
                done = await self._vcenter.finished(await self._vcenter.power_on(state.ref))
                return "came" if done.fault is None else "found no room"
        return "did not come"

    async def go(self) -> str:
        """The first of them."""
        if not self._there:
            return "none is there"
        with contextlib.suppress(VCenterError, TimeoutError):
            async with asyncio.timeout(SECONDS):
                ref = self._there[0]
                await self._vcenter.finished(await self._vcenter.power_off(ref))
                await self._vcenter.finished(await self._vcenter.destroy(ref))
                self._there.pop(0)
                return "went"
        return "did not go"


@contextlib.asynccontextmanager
async def strangers(simulator: Simulator) -> AsyncIterator[Strangers]:
    """Those who may log in there, too."""
    known = Credentials(simulator.user, simulator.password, simulator.thumbprint)
    async with await connect(simulator.server, known) as vcenter:
        yield Strangers(vcenter)
