"""vGPUs as the kernel and the driver show and change them, on both frameworks."""

from __future__ import annotations

import asyncio
import errno
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.core.decision import refusals_of
from laneway.core.kernel.uevent import Uevent
from laneway.core.plan import Plan, Satisfied, undo
from laneway.core.programs import NVIDIA_SMI
from laneway.core.refusals import ProfileExhausted, ProfileNotListed
from laneway.core.vgpu.desired import DesiredVgpu, SharedGpu, decide, mdev_uuid
from laneway.host.plans.execute import StepError, execute
from support.plans import hardware_of


def names(kinds: Any) -> set[str]:
    return {kind.name for kind in kinds}


def errno_of(write: Callable[..., None], *arguments: Any) -> int:
    """The errno with which a write is refused, 0 when it is not."""
    try:
        write(*arguments)
    except OSError as error:
        return error.errno or 0
    return 0


def test_every_vf_offers_the_same_profiles_and_carries_none(gpu: Any) -> None:
    inventory = gpu.look()
    functions = gpu.functions()
    pf = next(f for f in inventory.functions if f.address == gpu.address)

    assert inventory.errors == ()
    assert [function.address for function in functions] == sorted(pf.vfs)
    assert {function.framework for function in functions} == {gpu.framework}
    assert {function.configured for function in functions} == {None}
    offers = {function.creatable for function in functions}
    assert len(offers) == 1
    assert {"1Q", "2Q", "4Q"} <= {name.rpartition("-")[2] for name in names(*offers)}


def test_a_vgpu_is_seen_where_it_was_made(gpu: Any) -> None:
    function = gpu.functions()[3]
    kind = gpu.profile("-4Q")

    gpu.create(function, kind)

    found = {f.address: f.configured for f in gpu.functions()}
    made = found.pop(function.address)
    assert (made.type_id, made.type_name) == (kind.id, kind.name)
    assert bool(made.uuid) == (gpu.framework == "mdev")
    assert set(found.values()) == {None}


async def test_the_place_of_a_vgpu_is_reported_while_there_is_one(gpu: Any) -> None:
    async def mix() -> None:
        argv = [NVIDIA_SMI, "vgpu", "-i", str(gpu.address), "-shm", "1"]
        done = await gpu.machine.executor.run(argv, 60)
        assert done.status == 0, done.output

    await mix()
    first, second, *_ = gpu.functions()
    files = gpu.path("nvidia", first.address)
    if gpu.framework != "mdev":
        for name in ("placement_id", "gpu_instance_id", "vgpu_params", "warm_update"):
            assert errno_of(gpu.host.read, f"{files}/{name}") == errno.ENXIO
    gpu.create(first, gpu.profile("-4Q"))
    gpu.create(second, gpu.profile("-1Q"))

    if gpu.framework == "mdev":
        assert [one.configured.placement for one in gpu.functions()[:2]] == [None, None]
        for function in (first, second):  # an mdev has a place while a VM has it
            gpu.machine.hold(*gpu.vgpu_node(function))
    reported = [one.configured for one in gpu.functions()[:2]]
    assert reported[0].placement == 0
    assert reported[1].placement >= 4
    assert [one.gpu_instance for one in reported] == [None, None]


def test_the_siblings_of_a_vgpu_offer_its_size_only(gpu: Any) -> None:
    first, *others = gpu.functions()

    gpu.create(first, gpu.profile("-4Q"))

    carrier, *siblings = gpu.functions()
    assert carrier.creatable == ()
    assert len(siblings) == len(others)
    for sibling in siblings:
        sizes = {name.rpartition("-")[2][:-1] for name in names(sibling.creatable)}
        assert sizes == {"4"}


def test_a_full_gpu_offers_nothing(gpu: Any) -> None:
    fits = gpu.memory_gib // 4
    kind = gpu.profile("-4Q")
    for function in gpu.functions()[:fits]:
        gpu.create(function, kind)

    functions = gpu.functions()

    assert {f.configured.type_name for f in functions[:fits]} == {kind.name}
    assert {f.configured for f in functions[fits:]} == {None}
    assert {f.creatable for f in functions} == {()}


def test_what_a_vgpu_took_comes_back_with_its_removal(gpu: Any) -> None:
    before = gpu.functions()
    gpu.create(before[0], gpu.profile("-4Q"))
    assert gpu.functions() != before

    gpu.remove(before[0])

    assert gpu.functions() == before


def test_a_vgpu_of_another_size_is_refused_and_changes_nothing(gpu: Any) -> None:
    small, large = gpu.profile("-1Q"), gpu.profile("-4Q")
    first, second, *_ = gpu.functions()
    gpu.create(first, small)
    before = gpu.functions()

    expected = errno.ENOSPC if gpu.framework == "mdev" else errno.EIO
    assert errno_of(gpu.create, second, large) == expected
    assert gpu.functions() == before


def test_a_vgpu_cannot_be_made_twice(gpu: Any) -> None:
    function = gpu.functions()[0]
    kind = gpu.profile("-4Q")
    gpu.create(function, kind)
    before = gpu.functions()

    expected = errno.EEXIST if gpu.framework == "mdev" else errno.EIO
    assert errno_of(gpu.create, function, kind) == expected
    assert gpu.functions() == before


def test_a_malformed_uuid_is_refused(only: Any) -> None:
    gpu = only("mdev")
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    path = f"/sys/bus/pci/devices/{function.address}/mdev_supported_types/{kind.id}/create"

    for wrong in (
        "x",
        "0" * 36,
        f"{uuid.UUID(int=1)}xx",
        f"{uuid.UUID(int=1)}é",
        str(uuid.UUID(int=1))[:-1],
    ):
        assert errno_of(gpu.host.write, path, wrong) == errno.EINVAL
    assert gpu.functions()[0].configured is None


@pytest.mark.parametrize("extra", ["", "\n", "x", "0"])
def test_a_uuid_may_be_followed_by_any_one_byte(only: Any, extra: str) -> None:
    gpu = only("mdev")
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    path = f"/sys/bus/pci/devices/{function.address}/mdev_supported_types/{kind.id}/create"
    asked = mdev_uuid("node", function)

    gpu.host.write(path, asked.upper() + extra)

    assert gpu.functions()[0].configured.uuid == asked


def test_an_unknown_type_is_refused_and_clears_the_function(only: Any) -> None:
    gpu = only("vendor-vfio")
    function = gpu.functions()[0]
    gpu.create(function, gpu.profile("-4Q"))

    path = f"/sys/bus/pci/devices/{function.address}/nvidia/current_vgpu_type"
    assert errno_of(gpu.host.write, path, "9999") == errno.EIO
    assert gpu.functions()[0].configured is None


async def test_the_life_of_an_mdev_is_announced(only: Any) -> None:
    gpu = only("mdev")
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    async with gpu.host.uevents() as events:
        gpu.create(function, kind)
        added = await _next(events, "add", "mdev")
        gpu.remove(function)
        removed = await _next(events, "remove", "mdev")

    assert added.devpath == removed.devpath
    assert f"/{function.address}/" in added.devpath


async def _next(events: Any, action: str, subsystem: str) -> Uevent:
    async with asyncio.timeout(60):
        async for event in events:
            if (event.action, event.subsystem) == (action, subsystem):
                return event
    raise AssertionError("no more events")


async def test_a_desired_state_is_carried_out_and_taken_back(gpu: Any, tmp_path: Path) -> None:
    functions = gpu.functions()
    kind = gpu.profile("-4Q")
    address = functions[5].address
    desired = DesiredVgpu(address, enabled=True, profile=kind.name, explicit=True)

    plan = decide(desired, "node", SharedGpu(functions))
    assert isinstance(plan, Plan)
    await execute(hardware_of(gpu.host, tmp_path), plan, actor="test", reason="test")

    functions = gpu.functions()
    assert functions[5].configured.type_name == kind.name
    assert decide(desired, "node", SharedGpu(functions)) == Satisfied()

    withdraw = DesiredVgpu(address, enabled=False, profile="", explicit=True)
    plan = decide(withdraw, "node", SharedGpu(functions))
    assert isinstance(plan, Plan)
    await execute(hardware_of(gpu.host, tmp_path), plan, actor="test", reason="test")

    assert gpu.functions()[5].configured is None


async def test_the_only_vgpu_gets_another_size_in_one_desired_state(
    gpu: Any, tmp_path: Path
) -> None:
    small, large = gpu.profile("-1Q"), gpu.profile("-4Q")
    first, *_ = gpu.functions()
    gpu.create(first, small)
    functions = gpu.functions()
    desired = DesiredVgpu(first.address, enabled=True, profile=large.name, explicit=True)

    plan = decide(desired, "node", SharedGpu(functions))
    assert isinstance(plan, Plan)
    await execute(hardware_of(gpu.host, tmp_path), plan, actor="test", reason="test")

    assert gpu.functions()[0].configured.type_name == large.name


def test_a_size_that_others_rule_out_is_exhausted_and_a_made_up_one_unknown(gpu: Any) -> None:
    small, large = gpu.profile("-1Q"), gpu.profile("-4Q")
    first, second, *_ = gpu.functions()
    gpu.create(first, small)
    functions = gpu.functions()
    for profile, reason in ((large.name, ProfileExhausted), (f"{large.name}Q", ProfileNotListed)):
        desired = DesiredVgpu(second.address, enabled=True, profile=profile, explicit=True)
        [refusal] = refusals_of(decide(desired, "node", SharedGpu(functions)))
        assert isinstance(refusal, reason)


async def test_a_change_that_does_not_fit_leaves_the_vgpu_that_was_there(
    gpu: Any, tmp_path: Path
) -> None:
    small, large = gpu.profile("-1Q"), gpu.profile("-4Q")
    first, second, *_ = gpu.functions()
    gpu.create(first, small)
    gpu.create(second, small)
    plan = Plan((undo(gpu.creation(first, small)), gpu.creation(first, large)))

    with pytest.raises(StepError) as failure:
        await execute(hardware_of(gpu.host, tmp_path), plan, actor="test", reason="test")

    assert failure.value.left_over == ()
    assert [f.configured and f.configured.type_name for f in gpu.functions()[:3]] == [
        small.name,
        small.name,
        None,
    ]
