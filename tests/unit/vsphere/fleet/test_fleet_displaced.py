"""A machine whose place another one took: it goes before later requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.core.refusals.base import Refusal
from laneway.core.vsphere.inventory.vms import DynamicBacking
from laneway.core.vsphere.placement.domain import ANYWHERE
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.spec.requests import PassthroughRequest, PciIds, Requested
from laneway.kube.errors import UnreachableError

IDS = PciIds(0x10DE, 0x1EB8)
WANTED = Requested((PassthroughRequest((IDS,)),))
ITEM = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
CARD = {"id": "0000:3b:00.0", "name": "Tesla T4", "fbGiB": 16, "mode": "passthrough"} | ITEM


@pytest.mark.parametrize("cut", [False, True], ids=["at_once", "after_a_write_that_was_cut_off"])
async def test_who_lost_its_place_to_a_machine_that_drs_put_there_gets_the_other(
    site: Any, start_vcenter: Any, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    vcenter = start_vcenter({f"DC0_C0_H{at}": [CARD] for at in range(2)})
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    vms = [await site.vm(name, vcenter, ITEM) for name in ("one", "two", "late")]
    one, two = [await found.reservations.keep(vm, WANTED, ANYWHERE) for vm in vms[:2]]
    assert one.host != two.host
    assert isinstance(await found.reservations.keep(vms[2], WANTED, ANYWHERE), Refusal)

    connection = found.fleet.vcenter(vcenter.server)
    ref = await site.clone(found, vcenter, vms[1])
    await site.attach(found, vcenter, ref, DynamicBacking((IDS,)))
    state = await connection.find(vms[1].metadata.uid)
    await found.reservations.tell(vms[1], WANTED, state)  # the VM is known
    await connection.finished(await connection.relocate(ref, one.host))
    await site.power_on(found, vcenter, ref)
    async with asyncio.timeout(60):
        while not _held(found.fleet.hosts(vcenter.server)):  # noqa: ASYNC110 - not announced here
            await asyncio.sleep(0.01)

    if cut:

        async def patch(*_: Any, **__: Any) -> None:
            raise UnreachableError("cut off")

        monkeypatch.setattr(site.client, "patch", patch)
        with pytest.raises(UnreachableError):
            await found.reservations.keep(vms[2], WANTED, ANYWHERE)
        monkeypatch.undo()
    late = await found.reservations.keep(vms[2], WANTED, ANYWHERE)
    assert isinstance(late, Refusal)
    kept = await found.reservations.keep(vms[0], WANTED, ANYWHERE)
    assert isinstance(kept, Reservation)
    assert kept.host == two.host


def _held(hosts: Any) -> bool:
    return any(device.holder for host in hosts for device in host.devices)
