"""Reservations for machines of resource pools of which only vCenter knows the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pyVmomi import vim

from laneway.core.refusals.vsphere import ResourcePoolUnresolved
from laneway.core.vsphere.placement.domain import ANYWHERE
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.spec.requests import PassthroughRequest, PciIds, Requested
from laneway.vsphere.vcenter import lookup
from support.vcenter import Simulator

IDS = PciIds(0x10DE, 0x1EB8)
WANTED = Requested((PassthroughRequest((IDS,)),))
ITEM = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
CARD = {"id": "0000:3b:00.0", "name": "Tesla T4", "fbGiB": 16, "mode": "passthrough"} | ITEM
READING = "CreateContainerView"
"""How all names of a vCenter are read."""


async def test_an_empty_pool_does_not_have_all_names_read_each_time(
    site: Any, vcenter: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "KEPT_S", 600.0)
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    vms = [await site.vm(f"m{at}", vcenter, ITEM, resourcePool="no-such") for at in range(3)]
    assert isinstance(
        await found.reservations.keep(vms[0], WANTED, ANYWHERE), ResourcePoolUnresolved
    )
    before = vcenter.requests(READING)
    for vm in vms * 2:
        assert isinstance(
            await found.reservations.keep(vm, WANTED, ANYWHERE), ResourcePoolUnresolved
        )
    assert vcenter.requests(READING) == before


async def test_a_reservation_stays_though_its_pool_has_become_ambiguous(
    site: Any,
    start_vcenter: Callable[..., Simulator],
    make_pool: Callable[[Simulator, str, str], vim.ResourcePool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookup, "KEPT_S", 0.0)  # names are always those of now
    hosts = {f"DC0_C{at}_H0": [CARD, CARD | {"id": "0000:86:00.0"}] for at in range(2)}
    vcenter = start_vcenter(hosts, clusters=2)
    make_pool(vcenter, "DC0_C1", "team")
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one = await site.vm("one", vcenter, ITEM, resourcePool="team")
    late = await site.vm("late", vcenter, ITEM, resourcePool="team")
    other = await site.vm("other", vcenter, ITEM)
    reservation = await found.reservations.keep(one, WANTED, ANYWHERE)
    assert isinstance(reservation, Reservation)
    make_pool(vcenter, "DC0_C0", "team")
    assert isinstance(await found.reservations.keep(late, WANTED, ANYWHERE), ResourcePoolUnresolved)
    assert await found.reservations.keep(one, WANTED, ANYWHERE) == reservation

    # Nor does a controller ask that manages others because a host has changed.
    changed = asyncio.Event()
    found.fleet.subscribe(lambda *_: changed.set())
    vcenter.change_device("DC0_C1_H0", "0000:86:00.0", label="gold")
    await asyncio.wait_for(changed.wait(), 60)
    before = vcenter.requests(READING)
    assert isinstance(await found.reservations.keep(other, WANTED, ANYWHERE), Reservation)
    assert vcenter.requests(READING) == before
