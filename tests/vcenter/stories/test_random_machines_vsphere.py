"""Machines with GPUs come and go in a vCenter, in which anything may happen at any time.

Pools of machines in several clusters are scaled, machines deleted, hosts put into maintenance,
devices labelled and taken away, also by machines of others, DRS is switched on and off, and the
vCenter is called otherwise; tasks fail, hang or are forgotten, connections break, sessions expire,
and managers are killed while others wait to lead, or none does. Whenever everything has come to
rest, vCenter's own truth says that every machine has exactly the devices that it requests, or the
machine says why not, and what is free is of no use to those that wait. Alongside CAPV, which the
test plays and which ignores reservations, it is as reported, whatever CAPV has made of it.

`LANEWAY_SEED` chooses what happens, `LANEWAY_CHANGES` says how much does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import pytest

from laneway.kube.errors import KubeError
from support.capv import Capv
from support.clusterapi import MACHINES
from support.strangers import Strangers, strangers
from support.vcenter import Simulator
from support.vsphere_truth import GROUP, T4, Item, Truth, asked, card, given, pair, shared
from support.vsphere_world import VCENTERS

CHANGES = int(os.environ.get("LANEWAY_CHANGES") or 24)
BETWEEN_RESTS = 8
SEED = int(os.environ.get("LANEWAY_SEED") or 5)
SECONDS = 60.0
"""Until all has come to rest: half as long as until machines are looked at without a reason."""
GOLD = T4 | {"customLabel": "gold"}
LABELS = ("", "gold")
HERE, THERE = "DC0_C0", "DC0_C1"
SENSOR = card(9, name="a sensor", deviceId=0x10)
"""Of no use to any machine."""
HOSTS = {
    f"{HERE}_H0": [card(3), card(4, "gold"), SENSOR],
    f"{HERE}_H1": [card(3), card(4), card(5, "gold"), SENSOR],
    f"{HERE}_H2": [card(3), shared(4), SENSOR],
    f"{THERE}_H0": [card(3, "gold"), *pair(5), SENSOR],
    f"{THERE}_H1": [shared(3), *pair(5), SENSOR],
}
GROUPS = {f"{THERE}_H0": [GROUP], f"{THERE}_H1": [GROUP]}


class Pool(NamedTuple):
    """A MachineDeployment."""

    devices: list[Item]
    within: str = HERE
    """The cluster of vSphere where its machines are to be; empty: wherever there is room."""
    cluster: str = "c1"


POOLS = {
    "plain": Pool([T4]),
    "gold": Pool([GOLD]),
    "pair": Pool([T4, T4]),
    "mixed": Pool([T4, GOLD]),
    "half": Pool([{"vGPUProfile": "grid_t4-8q"}]),
    "quarter": Pool([{"vGPUProfile": "grid_t4-4c"}], THERE),
    "none": Pool([]),
}
STANDALONE = POOLS | {
    "group": Pool([{"deviceGroupName": GROUP["name"]}], THERE, "c2"),
    "any-gold": Pool([GOLD], "", "c2"),
    "any-half": Pool([{"vGPUProfile": "grid_t4-8q"}], ""),
}
"""CAPV knows no groups, and needs a resource pool."""
MOST = 3
"""Machines of a pool."""
TASKS = (
    "CloneVM_Task",
    "UpgradeVM_Task",
    "ReconfigVM_Task",
    "RelocateVM_Task",
    "PowerOnVM_Task",
    "PowerOffVM_Task",
    "Destroy_Task",
)
FAULTS = ("HostCommunication", "Timedout", "NoDiskSpace", "InvalidArgument", "NotSupported")
"""The last two would be met again until something changes."""
OF_HOST = ("InsufficientHostCapacityFault", "InsufficientResourcesFault")
"""Why a host does not start a machine, which another one may."""
REFUSALS = {"NoRoom", "DeviceNotOffered", "HostsTooSmall"}
MISSING = "PCIDevicesMissing"


class Life:
    """What happens."""

    def __init__(
        self, world: Any, vcenter: Simulator, others: Strangers, see: Any, mode: str
    ) -> None:
        self.world = world
        self.others = others
        self.mode = mode
        self.pools = STANDALONE if mode == "standalone" else POOLS
        self.vcenter = vcenter
        self.see = see
        self.random = random.Random(SEED)
        self.managers: list[asyncio.Task[None]] = []
        self.replicas = dict.fromkeys(self.pools, 0)
        self.called = "vcenter-0"
        self.history: list[str] = []
        """What happened, for who must understand a failure."""

    async def begin(self) -> None:
        self.history.append(await self.drs())
        await self.world.vcenter(self.vcenter, self.called)
        for cluster in {pool.cluster for pool in self.pools.values()}:
            await self.world.cluster(self.vcenter, cluster)
        self.managers.append(await self.world.lead(self.mode))
        for name, (devices, within, cluster) in self.pools.items():
            where = f"{within}/Resources" if within else None
            await self.world.pool(name, *devices, replicas=0, cluster=cluster, resourcePool=where)

    async def desired(self) -> None:
        changes: dict[Callable[[], Awaitable[str]], int] = {
            self.scale: 14,
            self.delete: 3,
            self.maintenance: 3,
            self.label: 2,
            self.detach: 2,
            self.drs: 2,
            self.intrude: 2,
            self.leave: 2,
            self.fail: 4,
            self.refuse: 3,
            self.hang: 3,
            self.lose_a_request: 3,
            self.lose_touch: 2,
            self.remove_finalizer: 2,
            self.kill: 2,
            self.kill_all: 1,
            self.call_otherwise: 2,
            self.wait: 4,
        }
        (chosen,) = self.random.choices(list(changes), weights=list(changes.values()))
        # An object that is gone, and one that changed meanwhile, are a user's bad luck.
        with contextlib.suppress(KubeError):
            self.history.append(await chosen())

    # ---- what people do ----

    async def scale(self) -> str:
        pool = self.random.choice([*self.pools])
        self.replicas[pool] = self.random.randint(0, MOST)
        await self.world.scale(pool, self.replicas[pool])
        return f"{pool} has {self.replicas[pool]}"

    async def delete(self) -> str:
        if not (there := self.world.machines.all):
            return "no machine to delete"
        name = self.random.choice(there).metadata.name
        await self.world.delete(MACHINES, name)
        return f"{name} is deleted"

    async def maintenance(self) -> str:
        name, to = self.random.choice([*HOSTS]), self.random.random() < 0.5
        self.vcenter.change_host(name, maintenance=to)
        return f"{name} is in maintenance: {to}"

    async def label(self) -> str:
        name, label = self.random.choice([*HOSTS]), self.random.choice(LABELS)
        device = self.random.choice(HOSTS[name])["id"]
        self.vcenter.change_device(name, device, label=label)
        return f"{device} of {name} is labelled {label!r}"

    async def detach(self) -> str:
        if not (users := sorted({vm for of in self.vcenter.users().values() for vm in of})):
            return "no device to detach"
        name = self.random.choice(users)
        self.vcenter.detach(name)
        return f"{name} loses a device"

    async def drs(self) -> str:
        to = self.random.random() < 0.5
        name = self.random.choice([HERE, THERE])
        self.vcenter.change_cluster(name, drs=to)
        return f"DRS of {name} is on: {to}"

    async def call_otherwise(self) -> str:
        """As people rename an object: it goes, and another one comes, perhaps only later."""
        await self.world.delete(VCENTERS, self.called)
        if later := self.random.random() < 0.5:
            await self.world.vcenters.until(lambda all_: not all_)
            await asyncio.sleep(self.random.random())  # what passes is the point
        number = int(self.called.rpartition("-")[2]) + 1
        self.called = f"vcenter-{number}"
        await self.world.vcenter(self.vcenter, self.called)
        return f"the vCenter is {self.called}, {later=}"

    async def intrude(self) -> str:
        """Another VM takes a device, whatever machine it is reserved for."""
        return f"a stranger {await self.others.come(self.random.choice([HERE, THERE]))}"

    async def leave(self) -> str:
        return f"a stranger: {await self.others.go()}"

    # ---- what goes wrong ----

    async def fail(self) -> str:
        task, fault = self.random.choice(TASKS), self.random.choice(FAULTS)
        self.vcenter.fail(task, fault, "No.", at_once=self.random.random() < 0.3)
        return f"{task} is to fail: {fault}"

    async def refuse(self) -> str:
        fault, times = self.random.choice(OF_HOST), self.random.randint(1, 3)
        self.vcenter.fail("PowerOnVM_Task", fault, "Not here.", times=times)
        return f"hosts are not to start {times} machines: {fault}"

    async def hang(self) -> str:
        task, after = self.random.choice(TASKS), self.random.random() < 0.5
        self.vcenter.hold(task, after=after)
        return f"{task} hangs, {after=}"

    async def remove_finalizer(self) -> str:
        self.vcenter.release()
        return "nothing hangs"

    async def lose_a_request(self) -> str:
        task, after = self.random.choice(TASKS), self.random.random() < 0.5
        self.vcenter.drop(task, after=after)
        return f"the connection breaks at {task}, {after=}"

    async def lose_touch(self) -> str:
        how: Callable[[], None] = self.random.choice(
            [
                self.vcenter.expire_sessions,
                self.vcenter.cut_connections,
                self.vcenter.forget_tasks,
            ]
        )
        how()
        return how.__name__

    async def kill(self) -> str:
        if len(self.managers) < 2:
            self.managers.append(await self.world.lead(self.mode))
        await self.world.kill(self.managers.pop(0))
        return "the manager is killed"

    async def kill_all(self) -> str:
        """No manager waits to lead, and the next one comes only later."""
        while self.managers:
            await self.world.kill(self.managers.pop())
        await asyncio.sleep(self.random.random())  # what passes is the point
        self.managers.append(await self.world.lead(self.mode))
        return "all managers are killed"

    async def wait(self) -> str:
        """So that others are not always interrupted as soon as they begin."""
        seconds = self.random.random()
        await asyncio.sleep(seconds)  # what passes is the point
        return f"{seconds:.2f} s pass"

    # ---- what is true then ----

    async def rest(self) -> None:
        self.vcenter.calm()
        self.vcenter.release()
        # Without any change, what could not be would not be tried again for long.
        for host in HOSTS:
            self.vcenter.change_device(host, SENSOR["id"], label=f"rest {len(self.history)}")
        wrong = ["not looked yet"]
        try:
            async with asyncio.timeout(SECONDS):
                while wrong:
                    wrong = await self.wrong()
                    await asyncio.sleep(0.1)  # vCenter's own state has no events
        except TimeoutError:
            pytest.fail("\n".join([*self.history, "", f"seed {SEED}:", *wrong]))
        self.history.append("all is at rest")

    async def wrong(self) -> list[str]:
        """What is not as it is to be."""
        for manager in self.managers:
            assert not manager.done(), manager.exception()
        state = await asyncio.to_thread(self.vcenter.state)
        truth = Truth(state, self.world.reservations.all, GROUPS)
        found = truth.wrong()
        for pool, count in self.replicas.items():
            there = len(self.see.of_pool(self.world.machines.all, pool))
            if there != count:
                found.append(f"{pool} has {there} machines of {count}")
        objects = {one.metadata.uid: one for one in self.world.vms.all}
        if len(objects) != sum(self.replicas.values()):
            found.append(f"{len(objects)} VSphereVMs")
        if len(truth.made) != len(truth.vms):
            found.append(f"two VMs of one machine: {truth.made}")
        found += [
            f"{vm['name']} is of nobody" for uid, vm in truth.vms.items() if uid not in objects
        ]
        names = {one["name"] for one in truth.vms.values()}
        users = {vm for gpu in state["gpus"] for vm in gpu["users"]}
        found += [
            f"{vm} holds a device and is none"
            for vm in sorted(users - names)
            if not vm.startswith("DC0_")
        ]
        for one in self.world.reservations.all:
            if not {owner.uid for owner in one.metadata.owner_references} & objects.keys():
                found.append(f"{one.metadata.name} is reserved for nobody")
            if one.spec["vCenter"] != self.called:
                found.append(f"{one.metadata.name} is reserved at {one.spec['vCenter']}")
        for uid, vm in objects.items():
            found += self.wrong_with(vm, truth.vms.get(uid), truth)
        return found

    def wrong_with(self, vm: Any, there: Mapping[str, Any] | None, truth: Truth) -> list[str]:
        """The same of one machine."""
        name, wanted = vm.metadata.name, list(vm.spec.get("pciDevices") or ())
        has = [] if there is None else there["devices"]
        on = there is not None and there["on"]
        if len(has) > len(asked(wanted)):
            return [f"{name} has attached that the Machine does not request: {has}"]
        status, reason, message = self.see.said(vm, "PCIDevicesReady")
        ready = self.see.is_true(vm, "Ready") or (self.mode == "alongside" and status == "True")
        if ready or (self.mode == "alongside" and not wanted):
            # CAPV may not get on what has all of its devices.
            if not on and (self.mode == "standalone" or reason != "Attached"):
                return [f"{name} is ready and not on"]
            if wanted and not self.is_reserved(name):
                return [f"{name} is ready, and nothing is reserved for it"]
            if asked(wanted) != given(has):
                return [f"{name} is ready with {has} for {wanted}"]
            return []
        if (status, bool(message)) != ("False", True):
            return [f"{name} says nothing of its devices: {vm.status}"]
        if reason == MISSING:
            lost = on and len(has) < len(asked(wanted))
            return [] if lost else [f"{name} misses none of {has}: {message}"]
        if self.mode == "alongside" and reason == "Reserved":
            return [f"{name} is on, and said to be off"] if on else []
        if reason not in REFUSALS:
            return [f"{name} says {reason}: {message}"]
        if on:
            return [f"{name} is on, and refused: {message}"]
        if host := truth.room(wanted, vm.spec.get("resourcePool", "").partition("/")[0]):
            return [f"{name} could be on {host}: {reason}: {message}"]
        return []

    def is_reserved(self, name: str) -> bool:
        return any(
            one.metadata.name == name and one.spec.get("host")
            for one in self.world.reservations.all
        )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["standalone", "alongside"])
async def test_machines_have_what_they_request_or_say_why_not_whatever_happens(
    world: Any,
    start_vcenter: Callable[..., Simulator],
    see: Any,
    caplog: pytest.LogCaptureFixture,
    mode: str,
) -> None:
    vcenter = start_vcenter(HOSTS, clusters=2, device_groups=GROUPS)
    async with strangers(vcenter) as others:
        life = Life(world, vcenter, others, see, mode)
        await life.begin()
        capv = asyncio.create_task(_capv(world, vcenter, mode))
        try:
            for number in range(1, CHANGES + 1):
                await life.desired()
                if number % BETWEEN_RESTS == 0:
                    await life.rest()
            life.replicas = dict.fromkeys(life.pools, 0)
            for pool in life.pools:
                await world.scale(pool, 0)
            await life.rest()
        finally:
            capv.cancel()
            await asyncio.wait([capv])
    assert capv.cancelled()
    assert len(life.history) > CHANGES // 2
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def _capv(world: Any, vcenter: Simulator, mode: str) -> None:
    if mode == "alongside":
        await Capv(world).run(vcenter)
    await asyncio.Event().wait()  # until all is over
