"""The inventory as it is followed: whole at first, then what changes, and that alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from laneway.core.vsphere.inventory.hosts import Device, Host, Profile, VgpuUser
from laneway.core.vsphere.inventory.vms import DynamicBacking, VgpuBacking
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.port import (
    Addition,
    Changed,
    Clone,
    Place,
    Reconfiguration,
    UnreachableVCenterError,
    VCenter,
)
from support.vcenter import Simulator

LogIn = Callable[..., Awaitable[VCenter]]


class Followed:
    """News as they come, and what they come to."""

    def __init__(self, connection: VCenter) -> None:
        self._news = connection.follow()
        self.hosts: dict[str, Host] = {}

    async def next(self) -> Changed:
        changed = await asyncio.wait_for(anext(self._news), 30)
        if changed.complete:
            self.hosts.clear()
        self.hosts.update({host.name: host for host in changed.hosts})
        return changed

    async def until(self, name: str, holds: Callable[[Host], bool]) -> Host:
        while not holds(self.hosts[name]):
            await self.next()
        return self.hosts[name]

    async def close(self) -> None:
        await self._news.aclose()


@pytest.fixture
async def followed(connection: VCenter) -> AsyncIterator[Followed]:
    followed = Followed(connection)
    await followed.next()
    yield followed
    await followed.close()


async def running(connection: VCenter, name: str, *backings: object) -> str:
    place = Place(datacenter="DC0", cluster="DC0_C0")
    uuid = f"{abs(hash(name)) % 10**8:08}-0000-0000-0000-000000000000"
    clone = Clone(name, "DC0_C0_RP0_VM0", place, uuid, 2, 1, 2048, lock_memory=True)
    vm = (await connection.finished(await connection.clone(clone))).result
    add = tuple(Addition(-200 - at, backing) for at, backing in enumerate(backings))
    for order in (
        connection.reconfigure(vm, Reconfiguration(add=add)),
        connection.power_on(vm),
    ):
        done = await connection.finished(await order)
        assert done.fault is None
    return vm


async def test_the_first_news_are_everything(followed: Followed, vcenter: Simulator) -> None:
    hosts = followed.hosts
    assert sorted(hosts) == ["DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2", "DC0_H0"]
    lone, first = hosts["DC0_H0"], hosts["DC0_C0_H0"]
    assert (lone.cluster, lone.drs, first.cluster, first.drs) == ("DC0_H0", False, "DC0_C0", True)
    assert {host.datacenter for host in hosts.values()} == {"DC0"}
    assert all(host.connected and not host.maintenance for host in hosts.values())
    t4 = PciIds(4318, 7864, 4318, 1)
    labelled = [(device.id, device.label) for device in first.devices]
    assert labelled == [("0000:3b:00.0", "lab-a"), ("0000:af:00.0", "")]
    assert first.devices[0] == Device(
        "0000:3b:00.0", first.devices[0].ids, "Tesla T4", "lab-a", display=True, active=True
    )
    assert first.devices[0].ids[:2] == t4[:2]
    (gpu,) = hosts["DC0_C0_H1"].shared_gpus
    assert (gpu.name, gpu.memory_gib, gpu.users) == ("Tesla T4", 16, ())
    assert Profile("grid_t4-8q", 8, migrates=True) in gpu.profiles
    assert hosts["DC0_C0_H1"].shared_direct


async def test_the_holder_of_a_device_is_reported(connection: VCenter, followed: Followed) -> None:
    vm = await running(connection, "whole", DynamicBacking((PciIds(4318, 7864),), "lab-a"))
    host = await followed.until("DC0_C0_H0", lambda host: bool(host.devices[0].holder))
    assert [device.holder for device in host.devices] == [vm, ""]
    await connection.power_off(vm)
    await followed.until("DC0_C0_H0", lambda host: not host.devices[0].holder)


async def test_who_has_vgpus_of_which_profile_is_reported(
    connection: VCenter, followed: Followed
) -> None:
    half = VgpuBacking("grid_t4-8q")
    one = await running(connection, "one", half)
    two = await running(connection, "two", half)
    host = await followed.until("DC0_C0_H1", lambda host: len(host.shared_gpus[0].users) == 2)
    assert set(host.shared_gpus[0].users) == {
        VgpuUser(one, "grid_t4-8q"),
        VgpuUser(two, "grid_t4-8q"),
    }
    await connection.destroy(one)
    await connection.power_off(one)
    host = await followed.until("DC0_C0_H1", lambda host: len(host.shared_gpus[0].users) == 1)
    assert host.shared_gpus[0].users == (VgpuUser(two, "grid_t4-8q"),)


async def test_only_what_changed_is_reported(followed: Followed, vcenter: Simulator) -> None:
    vcenter.change_host("DC0_C0_H2", maintenance=True)
    changed = await followed.next()
    assert [host.name for host in changed.hosts] == ["DC0_C0_H2"]
    assert (changed.gone, changed.complete) == ((), False)
    assert changed.hosts[0].maintenance

    vcenter.change_host("DC0_C0_H2", maintenance=False, connected=False)
    host = await followed.until("DC0_C0_H2", lambda host: not host.connected)
    assert not host.maintenance


async def test_devices_change_label_and_mode(followed: Followed, vcenter: Simulator) -> None:
    vcenter.change_device("DC0_C0_H0", "0000:af:00.0", label="lab-b")
    host = await followed.until("DC0_C0_H0", lambda host: host.devices[1].label == "lab-b")
    assert host.devices[0].label == "lab-a"
    vcenter.change_device("DC0_C0_H1", "0000:3b:00.0", mode="passthrough")
    host = await followed.until("DC0_C0_H1", lambda host: not host.shared_gpus)
    assert [device.active for device in host.devices] == [True]
    vcenter.change_device("DC0_C0_H1", "0000:3b:00.0", mode="sharedDirect")
    host = await followed.until("DC0_C0_H1", lambda host: bool(host.shared_gpus))
    assert Profile("grid_t4-8q", 8, migrates=True) in host.shared_gpus[0].profiles


async def test_a_cluster_without_drs_and_its_host_groups(
    start_vcenter: Callable[..., Simulator], log_into: LogIn
) -> None:
    simulator = start_vcenter(settings={"DC0_C0": {"hostGroups": {"gpus": ["DC0_C0_H1"]}}})
    followed = Followed(await log_into(simulator))
    await followed.next()
    groups = {name: host.groups_of for name, host in followed.hosts.items() if host.groups_of}
    assert groups == {"DC0_C0_H1": ("gpus",)}
    simulator.change_cluster("DC0_C0", drs=False)
    await followed.until("DC0_C0_H1", lambda host: not host.drs)
    assert not followed.hosts["DC0_C0_H0"].drs
    await followed.close()


async def test_after_an_interruption_everything_is_reported_again(
    connection: VCenter, followed: Followed, vcenter: Simulator
) -> None:
    vcenter.change_host("DC0_C0_H2", maintenance=True)
    await followed.until("DC0_C0_H2", lambda host: host.maintenance)
    vcenter.expire_sessions()
    vcenter.cut_connections()
    with pytest.raises(UnreachableVCenterError):
        await followed.next()
    again = Followed(connection)
    assert (await again.next()).complete
    assert again.hosts == followed.hosts
    await again.close()


async def test_two_can_follow(connection: VCenter, vcenter: Simulator) -> None:
    both = [Followed(connection), Followed(connection)]
    for followed in both:
        await followed.next()
    vcenter.change_host("DC0_C0_H2", maintenance=True)
    for followed in both:
        await followed.until("DC0_C0_H2", lambda host: host.maintenance)
        await followed.close()


async def test_an_older_vcenter_tells_less(
    start_vcenter: Callable[..., Simulator], log_into: LogIn
) -> None:
    connection = await log_into(start_vcenter(api_version="7.0.3.0"))
    followed = Followed(connection)
    assert (await followed.next()).complete
    (gpu,) = followed.hosts["DC0_C0_H1"].shared_gpus
    assert "grid_t4-8q" in {profile.name for profile in gpu.profiles}
    assert (await connection.named("ubuntu", Place(datacenter="DC0"))) is not None
    await followed.close()
