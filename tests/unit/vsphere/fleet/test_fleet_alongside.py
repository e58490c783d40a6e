"""Alongside CAPV, played by the test: what is said of a machine's devices from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from laneway.api import find_condition
from laneway.api.vsphere import VSphereReservation
from laneway.core.vsphere.inventory.vms import DynamicBacking, VgpuBacking
from laneway.core.vsphere.spec.requests import PciIds
from laneway.kube import capv

VGPU = {"vGPUProfile": "grid_t4-8q"}
T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}


def devices_are(status: str, reason: str) -> Callable[[Any], bool]:
    def holds(obj: Any) -> bool:
        found = find_condition(obj.status.conditions, "PCIDevicesReady")
        return found is not None and (found.status, found.reason) == (status, reason)

    return holds


def said(obj: Any) -> str:
    found = find_condition(obj.status.conditions, "PCIDevicesReady")
    return found.message if found is not None else ""


def card(address: str, label: str = "") -> dict[str, Any]:
    """A T4 that whole machines may have."""
    about = {"id": address, "name": "Tesla T4", "fbGiB": 16, "mode": "passthrough", "label": label}
    return about | T4


def states(reservation: Any) -> list[str]:
    return [one.state for one in reservation.status.devices]


async def test_the_devices_of_a_machine_from_its_spec_to_its_end(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    found = await site.lead(alongside=True)
    await site.followed(found, vcenter)
    vm = await site.vm("one", vcenter, VGPU, VGPU)
    await site.until(capv.VSPHERE_VMS, "one", devices_are("False", "Reserved"))
    assert states(await site.get(VSphereReservation, "one")) == ["Reserved", "Reserved"]

    ref = await site.clone(found, vcenter, vm)
    backing = VgpuBacking("grid_t4-8q")
    await site.attach(found, vcenter, ref, backing, backing)
    await site.capv_says(vm, vmRef=f"VirtualMachine:{ref}")
    await site.until(capv.VSPHERE_VMS, "one", devices_are("True", "Attached"))

    await site.power_on(found, vcenter, ref)
    await site.until(capv.VSPHERE_VMS, "one", devices_are("True", "InUse"))
    kept = await site.until(VSphereReservation, "one", lambda obj: states(obj) == ["InUse"] * 2)
    assert kept.status.vm == ref
    assert {one.attached for one in kept.status.devices} == {"grid_t4-8q"}
    assert kept.status.devices[0].host == kept.spec.host_name

    vcenter.detach("one")
    lost = await site.until(capv.VSPHERE_VMS, "one", devices_are("False", "PCIDevicesMissing"))
    assert "grid_t4-8q" in said(lost)
    await site.until(
        VSphereReservation, "one", lambda obj: sorted(states(obj)) == ["InUse", "Missing"]
    )
    connection = found.fleet.vcenter(vcenter.server)
    await connection.finished(await connection.power_off(ref))
    await connection.finished(await connection.destroy(ref))
    await site.client.delete(capv.VSPHERE_VMS, "one", "default")
    await site.until_gone(VSphereReservation, "one")


async def test_eight_machines_for_four_cards_and_a_reason_for_each_of_the_others(
    site: Any, start_vcenter: Any
) -> None:
    cards = [card(f"0000:{at:02x}:00.0", "gold" if at < 4 else "") for at in (2, 3, 4, 5)]
    simulator = start_vcenter({"DC0_C0_H0": cards[:2], "DC0_C0_H1": cards[2:]})
    await site.vcenter(simulator)
    found = await site.lead(alongside=True)
    await site.followed(found, simulator)
    names = [f"m{number}" for number in range(8)]
    for number, name in enumerate(names):
        item = T4 | ({"customLabel": "gold"} if number % 2 else {})
        await site.vm(name, simulator, item)
    for name in names:
        await site.until(
            capv.VSPHERE_VMS,
            name,
            lambda obj: (
                devices_are("False", "Reserved")(obj) or devices_are("False", "NoRoom")(obj)
            ),
        )
    await site.rest(found)
    kept = [one for one in await site.all(VSphereReservation) if one.spec.host]
    assert len(kept) == 4
    seats = [(one.spec.host, one.spec.seats[0].devices[0]) for one in kept]
    assert len(set(seats)) == 4
    refused = [vm for vm in await site.all(capv.VSPHERE_VMS) if devices_are("False", "NoRoom")(vm)]
    assert len(refused) == 4
    assert all("10de:1eb8" in said(vm) for vm in refused)


async def test_who_waits_gets_what_another_machine_no_longer_requests(
    site: Any, start_vcenter: Callable[..., Any]
) -> None:
    vcenter = start_vcenter({"DC0_C0_H0": [card("0000:03:00.0", "gold"), card("0000:04:00.0")]})
    await site.vcenter(vcenter)
    found = await site.lead(alongside=True)
    await site.followed(found, vcenter)
    gold = T4 | {"customLabel": "gold"}
    await site.vm("one", vcenter, gold)
    await site.until(capv.VSPHERE_VMS, "one", devices_are("False", "Reserved"))
    await site.vm("two", vcenter, gold)
    await site.until(capv.VSPHERE_VMS, "two", devices_are("False", "NoRoom"))
    await site.client.patch(capv.VSPHERE_VMS, "one", {"spec": {"pciDevices": [T4]}}, "default")
    await site.until(capv.VSPHERE_VMS, "two", devices_are("False", "Reserved"))


async def test_an_unknown_device_is_refused_at_once_and_reported_on_the_machine_too(
    site: Any, vcenter: Any
) -> None:
    await site.vcenter(vcenter)
    found = await site.lead(alongside=True)
    await site.followed(found, vcenter)
    await site.make(capv.VSPHERE_MACHINES, "infra", spec=_clone_spec(vcenter))
    owner = {
        "apiVersion": capv.VSPHERE_MACHINES.api_version,
        "kind": "VSphereMachine",
        "name": "infra",
        "uid": (await site.get(capv.VSPHERE_MACHINES, "infra")).metadata.uid,
    }
    await site.vm("one", vcenter, {"vGPUProfile": "grid_a16-2q"}, owners=[owner])
    reported = await site.until(capv.VSPHERE_VMS, "one", devices_are("False", "DeviceNotOffered"))
    assert "grid_a16-2q" in said(reported)
    await site.until(capv.VSPHERE_MACHINES, "infra", devices_are("False", "DeviceNotOffered"))
    refused = await site.until(VSphereReservation, "one", lambda obj: bool(obj.status.devices))
    assert (refused.spec.host, states(refused)) == ("", ["Refused"])
    assert "grid_a16-2q" in refused.status.devices[0].message
    reported = ("Warning", "DeviceNotOffered")
    async with asyncio.timeout(60):
        while reported not in await site.events("one"):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.02)


async def test_odd_specs_get_a_condition_with_the_path(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    await site.lead(alongside=True)
    await site.vm("both", vcenter, T4 | VGPU)
    reported = await site.until(capv.VSPHERE_VMS, "both", devices_are("False", "InvalidPCIDevices"))
    assert "spec.pciDevices[0]" in said(reported)


async def test_machines_without_devices_and_paused_ones_are_left_alone(
    site: Any, vcenter: Any
) -> None:
    await site.vcenter(vcenter)
    found = await site.lead(alongside=True)
    await site.followed(found, vcenter)
    await site.vm("plain", vcenter)
    await site.vm("paused", vcenter, VGPU, annotations={"cluster.x-k8s.io/paused": "true"})
    await site.vm("other", vcenter, VGPU)
    await site.until(capv.VSPHERE_VMS, "other", devices_are("False", "Reserved"))
    await site.rest(found)
    assert [one.metadata.name for one in await site.all(VSphereReservation)] == ["other"]
    for name in ("plain", "paused"):
        assert not (await site.get(capv.VSPHERE_VMS, name)).status.conditions


async def test_the_reservation_follows_a_machine_that_vcenter_put_elsewhere(
    site: Any, start_vcenter: Any
) -> None:
    ids = PciIds(0x10DE, 0x1EB8)
    vcenter = start_vcenter({f"DC0_C0_H{at}": [card("0000:3b:00.0")] for at in range(2)})
    await site.vcenter(vcenter)
    found = await site.lead(alongside=True)
    await site.followed(found, vcenter)
    vm = await site.vm("one", vcenter, T4)
    kept = await site.until(VSphereReservation, "one", lambda obj: bool(obj.spec.host))
    ref = await site.clone(found, vcenter, vm)
    await site.attach(found, vcenter, ref, DynamicBacking((ids,)))
    vcenter.change_host(kept.spec.host_name, maintenance=True)
    moved = await site.until(
        VSphereReservation, "one", lambda obj: obj.spec.host not in ("", kept.spec.host)
    )
    vcenter.change_host(kept.spec.host_name, maintenance=False)
    vcenter.change_host(moved.spec.host_name, maintenance=True)
    await site.power_on(found, vcenter, ref)
    there = await site.until(
        VSphereReservation,
        "one",
        lambda obj: states(obj) == ["InUse"] and obj.spec.host == kept.spec.host,
    )
    assert there.spec.host_name == vcenter.vms()["one"]["host"]
    device = there.spec.seats[0].devices[0]
    assert (there.spec.host_name, device) in vcenter.users()


def _clone_spec(simulator: Any) -> dict[str, Any]:
    return {
        "server": simulator.server,
        "template": "DC0_C0_RP0_VM0",
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
    }
