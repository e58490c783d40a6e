"""Machines that race for devices, and what is reserved for whom, whatever is killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from laneway.api.vsphere import VCenter, VSphereReservation
from laneway.core.refusals.base import Refusal
from laneway.core.vsphere.placement.domain import ANYWHERE
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.spec.requests import Requested, VgpuRequest
from laneway.kube import capv
from laneway.kube.resource import served
from laneway.vsphere.fleet import reservations
from laneway.vsphere.fleet.reservation_writer import FINALIZER
from laneway.vsphere.port import VCenterError

LAST = Requested((VgpuRequest("grid_t4-16q"),))
"""The sample inventory has one shared T4: one of these fits."""
ITEM = {"vGPUProfile": "grid_t4-16q"}


async def until_given_back(site: Any, found: Any) -> None:
    """Wait until the reservation of `one` is gone, and the manager has seen that."""
    await site.until_gone(VSphereReservation, "one")
    async with asyncio.timeout(60):
        while found.reservations.of("default", "one") is not None:  # noqa: ASYNC110 - not announced
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_of_two_that_race_for_the_last_vgpu_exactly_one_gets_it(
    site: Any, vcenter: Any
) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    vms = [await site.vm(f"m{number}", vcenter, ITEM) for number in range(6)]
    answers = await asyncio.gather(*(found.reservations.keep(vm, LAST, ANYWHERE) for vm in vms))
    won = [one for one in answers if isinstance(one, Reservation)]
    assert len(won) == 1
    refused = [one for one in answers if isinstance(one, Refusal)]
    assert {one.reason for one in refused} == {"NoRoom"}
    assert won[0].machine in refused[0].words
    stored = [one for one in await site.all(VSphereReservation) if one.spec.host]
    assert [f"default/{one.metadata.name}" for one in stored] == [won[0].machine]
    assert stored[0].metadata.finalizers == [FINALIZER]
    assert stored[0].metadata.owner_references[0].kind == "VSphereVM"
    refusals = site.registry.get_sample_value("laneway_vsphere_refused_total", {"reason": "NoRoom"})
    assert refusals == len(refused)


async def test_a_reservation_outlives_the_manager_that_made_it(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    first = await site.lead()
    await site.followed(first, vcenter)
    one, two = await site.vm("one", vcenter, ITEM), await site.vm("two", vcenter, ITEM)
    reservation = await first.reservations.keep(one, LAST, ANYWHERE)
    await site.kill(first)
    second = await site.lead()
    await site.followed(second, vcenter)
    assert isinstance(await second.reservations.keep(two, LAST, ANYWHERE), Refusal)
    assert await second.reservations.keep(one, LAST, ANYWHERE) == reservation
    assert len([r for r in await site.all(VSphereReservation) if r.spec.host]) == 1


async def test_a_reservation_ends_with_its_machine_and_the_next_one_gets_it(
    site: Any, vcenter: Any
) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one, two = await site.vm("one", vcenter, ITEM), await site.vm("two", vcenter, ITEM)
    await found.reservations.keep(one, LAST, ANYWHERE)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    await until_given_back(site, found)
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Reservation)


async def test_a_reservation_stays_while_the_vm_is_in_vcenter(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one, two = await site.vm("one", vcenter, ITEM), await site.vm("two", vcenter, ITEM)
    await found.reservations.keep(one, LAST, ANYWHERE)
    ref = await site.clone(found, vcenter, one)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    await site.until(
        VSphereReservation, "one", lambda obj: obj.metadata.deletion_timestamp is not None
    )
    await site.rest(found)
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Refusal)
    connection = found.fleet.vcenter(vcenter.server)
    await connection.finished(await connection.destroy(ref))
    await site.rest(found)
    await until_given_back(site, found)
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Reservation)


async def test_a_deleted_reservation_is_made_again(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one = await site.vm("one", vcenter, ITEM)
    reservation = await found.reservations.keep(one, LAST, ANYWHERE)
    await site.client.patch(
        served(VSphereReservation), "one", {"metadata": {"finalizers": None}}, "default"
    )
    await site.client.delete(served(VSphereReservation), "one", "default")
    await until_given_back(site, found)
    assert await found.reservations.keep(one, LAST, ANYWHERE) == reservation
    assert (await site.get(VSphereReservation, "one")).spec.host == reservation.host


async def test_a_new_machine_of_the_same_name_gets_its_own_reservation(
    site: Any, vcenter: Any
) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one = await site.vm("one", vcenter, ITEM)
    await found.reservations.keep(one, LAST, ANYWHERE)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    again = await site.vm("one", vcenter, ITEM)
    assert isinstance(await found.reservations.keep(again, LAST, ANYWHERE), Reservation)
    stored = await site.get(VSphereReservation, "one")
    assert [one.uid for one in stored.metadata.owner_references] == [again.metadata.uid]


async def test_reservations_from_before_an_object_named_the_vcenter_stay(
    site: Any, vcenter: Any
) -> None:
    await site.secret("creds")
    spec = {
        "server": vcenter.server,
        "thumbprint": vcenter.thumbprint,
        "identityRef": {"kind": "Secret", "name": "creds"},
    }
    await site.make(capv.VSPHERE_CLUSTERS, "c", spec=spec)
    found = await site.lead()
    await site.followed(found, vcenter)
    one, two = await site.vm("one", vcenter, ITEM), await site.vm("two", vcenter, ITEM)
    reservation = await found.reservations.keep(one, LAST, ANYWHERE)
    await site.vcenter(vcenter)
    await site.until(VCenter, "main", lambda obj: obj.status.version)
    assert found.fleet.name(vcenter.server) == "main"
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Refusal)
    assert await found.reservations.keep(one, LAST, ANYWHERE) == reservation
    moved = Requested((VgpuRequest("grid_t4-8q"),))
    assert isinstance(await found.reservations.keep(one, moved, ANYWHERE), Reservation)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    await site.until_gone(VSphereReservation, "one")


@pytest.mark.parametrize("followed", [True, False])
async def test_reservations_of_a_renamed_vcenter_stay(
    site: Any, vcenter: Any, followed: bool
) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one, two = await site.vm("one", vcenter, ITEM), await site.vm("two", vcenter, ITEM)
    await found.reservations.keep(one, LAST, ANYWHERE)
    ref = await site.clone(found, vcenter, one)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    if followed:  # else it is called otherwise before it is known that it is not there
        await site.rest(found)
    await site.client.delete(served(VCenter), "main")
    await site.until_gone(VCenter, "main")
    if followed:
        await site.rest(found)
    await site.vcenter(vcenter, "other")
    await site.until(VCenter, "other", lambda obj: obj.status.version)
    await site.rest(found)
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Refusal)
    connection = found.fleet.vcenter(vcenter.server)
    await connection.finished(await connection.destroy(ref))
    await site.rest(found)
    await until_given_back(site, found)
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Reservation)


async def test_reservations_stay_with_their_vcenter_though_another_one_has_its_name_now(
    site: Any, start_vcenter: Any
) -> None:
    here, there = start_vcenter(), start_vcenter()
    await site.vcenter(here, "here")
    await site.vcenter(there, "there")
    found = await site.lead()
    await site.followed(found, here)
    one, two = await site.vm("one", here, ITEM), await site.vm("two", here, ITEM)
    reservation = await found.reservations.keep(one, LAST, ANYWHERE)
    for name in ("here", "there"):
        await site.client.delete(served(VCenter), name)
    await site.vcenter(there, "here")
    await site.vcenter(here, "there")
    await site.followed(found, here, "there")
    await site.followed(found, there, "here")
    await site.rest(found)
    assert isinstance(await found.reservations.keep(two, LAST, ANYWHERE), Refusal)
    assert await found.reservations.keep(one, LAST, ANYWHERE) == reservation
    elsewhere = await site.vm("elsewhere", there, ITEM)
    assert isinstance(await found.reservations.keep(elsewhere, LAST, ANYWHERE), Reservation)
    # A count by the name of the vCenter counts them there.
    stored = {one.metadata.name: one for one in await site.all(VSphereReservation)}
    assert stored["one"].spec.vcenter == "there"
    assert stored["elsewhere"].spec.vcenter == "here"


async def test_reservations_of_a_vcenter_that_is_gone_for_good_are_deleted(
    site: Any, vcenter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, "GONE_SECONDS", 0.0)
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.followed(found, vcenter)
    one = await site.vm("one", vcenter, ITEM)
    await found.reservations.keep(one, LAST, ANYWHERE)
    await site.clone(found, vcenter, one)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    await site.client.delete(served(VCenter), "main")
    await site.until_gone(VSphereReservation, "one")


class _LateVCenters:
    """A client that gets VCenter objects later than all others."""

    def __init__(self, client: Any) -> None:
        self.now = asyncio.Event()
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, resource: Any, *more: Any, **options: Any) -> AsyncIterator[Any]:
        if resource.plural == "vcenters":
            await self.now.wait()
        async for page in self._client.list(resource, *more, **options):
            yield page


async def test_nothing_is_taken_away_before_the_vcenters_are_known(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    first = await site.lead()
    await site.followed(first, vcenter)
    one = await site.vm("one", vcenter, ITEM)
    await first.reservations.keep(one, LAST, ANYWHERE)
    await site.clone(first, vcenter, one)
    await site.kill(first)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    late = _LateVCenters(site.client)
    second = await site.lead(client=late)
    for informer in (second.caches.reservations, second.caches.vms):
        await informer.synced.wait()
    for _ in range(50):
        assert await site.get(VSphereReservation, "one")
    late.now.set()
    await site.followed(second, vcenter)
    await site.rest(second)
    assert await site.get(VSphereReservation, "one")


class _Meanwhile:
    """A client that has something happen before it deletes a reservation."""

    def __init__(self, client: Any) -> None:
        self.happens: Callable[[], Awaitable[None]] | None = None
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def delete(self, resource: Any, *more: Any, **options: Any) -> None:
        if resource.plural == "vspherereservations" and self.happens is not None:
            await self.happens()
        await self._client.delete(resource, *more, **options)


async def test_no_machine_is_refused_by_a_vcenter_that_is_connected_again(
    site: Any, vcenter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, "AGAIN_SECONDS", 600.0)  # nothing else deletes it
    await site.vcenter(vcenter)
    client = _Meanwhile(site.client)
    found = await site.lead(client=client)
    await site.followed(found, vcenter)
    one = await site.vm("one", vcenter, ITEM)
    await found.reservations.keep(one, LAST, ANYWHERE)
    ref = await site.clone(found, vcenter, one)
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    again = await site.vm("one", vcenter, ITEM)
    await site.rest(found)
    connection = found.fleet.vcenter(vcenter.server)
    await connection.finished(await connection.destroy(ref))

    async def changed() -> None:
        late = {"secretRef": {"namespace": "default", "name": "late"}}
        await site.client.patch(served(VCenter), "main", {"spec": late})
        async with asyncio.timeout(60):
            while found.fleet.complete("main"):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.01)

    client.happens = changed
    with pytest.raises(VCenterError, match="does not know its hosts yet"):
        await found.reservations.keep(again, LAST, ANYWHERE)
    client.happens = None
    await site.secret("late")
    await site.followed(found, vcenter)
    assert isinstance(await found.reservations.keep(again, LAST, ANYWHERE), Reservation)
