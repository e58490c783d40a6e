"""`laneway vsphere gpus`: what people see of vCenters, without any credentials."""

from __future__ import annotations

import json
from typing import Any

from laneway.api.vsphere import VSphereHost, VSphereReservation
from laneway.core.vsphere.inventory.vms import VgpuBacking
from laneway.kube import capv

VGPU = {"vGPUProfile": "grid_t4-8q"}


def is_published(hosts: list[Any]) -> bool:
    """Whether the objects tell of the host in maintenance, and of who has the vGPU by its size."""
    users = [user for host in hosts for board in host.status.boards for user in board.users]
    return any(host.status.maintenance for host in hosts) and any(
        user.profile == "grid_t4-8q" for user in users
    )


async def test_devices_their_users_and_what_is_free(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    found = await site.lead(alongside=True)
    await site.followed(found, vcenter)
    vm = await site.vm("one", vcenter, VGPU)
    await site.until(VSphereReservation, "one", lambda obj: bool(obj.spec.host))
    ref = await site.clone(found, vcenter, vm)
    await site.attach(found, vcenter, ref, VgpuBacking("grid_t4-8q"))
    await site.power_on(found, vcenter, ref)
    await site.until(
        VSphereReservation,
        "one",
        lambda obj: [one.state for one in obj.status.devices] == ["InUse"],
    )
    await site.vm("two", vcenter, {"vendorId": 0x10DE, "deviceId": 0x1EB8, "customLabel": "lab-a"})
    await site.until(VSphereReservation, "two", lambda obj: bool(obj.spec.host))
    vcenter.change_host("DC0_C0_H2", maintenance=True)
    await site.until_all(VSphereHost, is_published)
    await site.rest(found)

    status, out, err = await site.command("vsphere", "gpus")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert any("lab-a" in line and "default/two (reserved)" in line for line in lines)
    assert any("default/one: 1 x grid_t4-8q" in line for line in lines)
    assert any("room for 1 x grid_t4-8q" in line for line in lines)
    assert any("DC0_C0_H2 (in maintenance mode)" in line for line in lines)

    status, out, err = await site.command("vsphere", "gpus", "-o", "json", "--cluster", "DC0_C0")
    (reported,) = json.loads(out)["vCenters"]
    (cluster,) = reported["clusters"]
    numbers = {
        one["what"]: (one["total"], one["inUse"], one["reserved"], one["free"])
        for one in cluster["capacity"]
    }
    assert numbers["grid_t4-8q"] == (2, 1, 0, 1)
    assert numbers["grid_t4-16q"][-1] == 0
    assert [one["host"] for one in cluster["skipped"]] == ["DC0_C0_H2"]

    await site.client.delete(capv.VSPHERE_VMS, "two", "default")
    status, _, err = await site.command("vsphere", "gpus", "--vcenter", "other")
    assert status == 1
    assert err == "laneway: no vCenter other is known. Known: main\n"
    status, _, err = await site.command("vsphere", "gpus", "--cluster", "other")
    assert (status, "DC0_C0" in err) == (1, True)


async def test_where_there_is_none_it_says_what_to_do(site: Any) -> None:
    status, out, _ = await site.command("vsphere", "gpus")
    assert status == 0
    assert "Create a VCenter object" in out
