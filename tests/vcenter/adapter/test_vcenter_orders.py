"""Orders over SOAP: what only a real connection shows. The rest: `support.port_contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from pyVmomi import vim

from laneway.vsphere.port import (
    NotFoundInVCenterError,
    Place,
    UnreachableVCenterError,
)
from laneway.vsphere.vcenter import Connection
from support.port_contract.orders import *  # noqa: F403 - the tests of the port
from support.port_contract.orders import CLONE, Doing, other
from support.vcenter import Simulator


async def test_a_vm_that_moves_within_its_cluster_stays_in_its_pool(
    start_vcenter: Callable[..., Simulator],
    log_into: Callable[..., Awaitable[Connection]],
    make_pool: Callable[[Simulator, str, str], vim.ResourcePool],
) -> None:
    vcenter = start_vcenter(clusters=2)
    team = make_pool(vcenter, "DC0_C0", "team")
    connection = await log_into(vcenter)
    done = Doing(connection)
    place = Place(datacenter="DC0", resource_pool="DC0_C0/Resources/team")
    vm = await done.machine(msgspec.structs.replace(CLONE, place=place))
    there = vim.VirtualMachine(vm.ref, team._stub)
    assert there.resourcePool == team

    [other] = [one for one in team.owner.parent.childEntity if one.name == "DC0_C1"]
    beside = next(host._moId for host in team.owner.host if host._moId != vm.host)
    elsewhere = other.host[0]._moId
    assert (await done(connection.relocate(vm.ref, beside))).fault is None
    assert (await done.seen(vm)).host == beside
    assert there.resourcePool == team
    # In another cluster there is no such pool.
    assert (await done(connection.relocate(vm.ref, elsewhere))).fault is None
    assert (await done.seen(vm)).host == elsewhere
    assert there.resourcePool == other.resourcePool


async def test_waits_survive_a_lost_session_or_say_so(
    connection: Connection, done: Doing, vcenter: Simulator
) -> None:
    vcenter.hold("CloneVM_Task")
    task = await connection.clone(CLONE)
    wait = asyncio.create_task(connection.finished(task))
    while task not in connection._watch._filters:
        await connection.about()  # until it is really waited for
    vcenter.expire_sessions()
    vcenter.cut_connections()
    vcenter.release()
    broken = await asyncio.gather(wait, return_exceptions=True)
    if isinstance(broken[0], BaseException):
        assert "task" in str(broken[0])
    assert (await connection.finished(task)).result


async def test_machines_join_their_group_one_after_the_other(
    start_vcenter: Callable[..., Simulator], log_into: Callable[..., Awaitable[Connection]]
) -> None:
    simulator = start_vcenter(settings={"DC0_C0": {"vmGroups": {"gpus": []}}})
    connection = await log_into(simulator)
    done = Doing(connection)
    vms = [await done.machine(other(f"node-{at}")) for at in range(4)]
    joins = [connection.join_group(vm.ref, "DC0_C0", "gpus") for vm in vms]
    for task in await asyncio.gather(*joins):
        assert (await connection.finished(task)).fault is None
    with pytest.raises(NotFoundInVCenterError, match="there is gpus"):
        await connection.join_group(vms[0].ref, "DC0_C0", "none")
    members = await connection._workers.run(lambda stub: _members(connection, stub), limit=10.0)
    assert set(members) == {vm.ref for vm in vms}


async def test_a_group_that_is_at_work_for_ever_delays_no_others(
    start_vcenter: Callable[..., Simulator],
    log_into: Callable[..., Awaitable[Connection]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulator = start_vcenter(settings={"DC0_C0": {"vmGroups": {"gpus": []}}})
    connection = await log_into(simulator)
    done = Doing(connection)
    one, two = [await done.machine(other(f"node-{at}")) for at in range(2)]
    simulator.hold("ReconfigureComputeResource_Task")
    first = await connection.join_group(one.ref, "DC0_C0", "gpus")
    with monkeypatch.context() as patched:
        patched.setattr("laneway.vsphere.vcenter.client.LIMIT_S", 0.5)
        with pytest.raises(UnreachableVCenterError, match="earlier change"):
            await connection.join_group(two.ref, "DC0_C0", "gpus")
    simulator.release()
    await connection.finished(first)
    second = await connection.join_group(two.ref, "DC0_C0", "gpus")
    assert (await connection.finished(second)).fault is None
    members = await connection._workers.run(lambda stub: _members(connection, stub), limit=10.0)
    assert set(members) == {one.ref, two.ref}


def _members(connection: Connection, stub: object) -> list[str]:
    cluster = connection._places.cluster(connection._session.content, stub, "DC0_C0")
    return [vm._moId for group in cluster.configurationEx.group for vm in group.vm]


async def test_what_came_of_tasks_is_read_together_and_remembered(
    connection: Connection, vcenter: Simulator
) -> None:
    """Many machines at once cost no more requests than need be."""
    vcenter.hold("CloneVM_Task")
    vcenter.fail("CloneVM_Task", "NoDiskSpace", "Full.", vm="node-2")
    names = [f"node-{number}" for number in range(6)]
    clones = [
        await connection.clone(msgspec.structs.replace(CLONE, name=name, instance_uuid=""))
        for name in names
    ]
    waits = [asyncio.create_task(connection.finished(task)) for task in clones]
    while vcenter.requests("CreateFilter") < len(clones):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.02)
    before = vcenter.requests("RetrievePropertiesEx")
    vcenter.release()
    ends = await asyncio.gather(*waits)
    assert [end.fault.type if end.fault else "" for end in ends] == ["", "", "NoDiskSpace"] + [
        ""
    ] * 3
    assert vcenter.requests("RetrievePropertiesEx") - before <= len(clones)
    vcenter.forget_tasks()
    assert [await connection.task(task) for task in clones] == ends
