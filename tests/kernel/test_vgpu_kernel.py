"""What only a real kernel does to a writer: act once, and block while a device is open."""

from __future__ import annotations

import errno
import uuid
from typing import Any

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan, SetVgpuType, undo
from laneway.host.plans.execute import StepError, execute
from laneway.host.scan import scan


def step_for(rig: str, host: Any, index: int) -> tuple[PciAddress, Any]:
    """The step that makes an A2-4Q on the VF of this index."""
    function = scan(host).vgpus[index]
    kind = next(kind for kind in function.creatable if kind.name.endswith("-4Q"))
    if rig == "mdev":
        made = str(uuid.UUID(int=index + 1))
        return function.address, CreateMdev(function.address, kind.id, kind.name, made)
    return function.address, SetVgpuType(function.address, kind.id, "0", kind.name)


async def test_a_creation_that_fails_is_attempted_once(
    rig: str, machine: Any, node: Any, with_vfs: None
) -> None:
    """The driver fails one creation; a second write behind our back would succeed."""
    _, step = step_for(rig, machine.host, 0)
    machine.knob("fail_create", 1)

    with pytest.raises(StepError) as failure:
        await execute(node, Plan((step,)), actor="test", reason="test")

    assert errno.errorcode[errno.EIO] in failure.value.refusal.error
    assert scan(machine.host).vgpus[0].configured is None


async def test_a_removal_that_waits_is_left_behind(rig: str, machine: Any, with_vfs: None) -> None:
    """Who opened the device after everybody looked for users; only a limit helps then."""
    if rig != "mdev":
        pytest.skip("this driver answers at once that the vGPU is in use")
    host = machine.host
    address, creation = step_for(rig, host, 1)
    host.write(
        f"/sys/bus/pci/devices/{address}/mdev_supported_types/{creation.type_id}/create",
        creation.uuid,
    )
    group = host.readlink(f"/sys/bus/mdev/devices/{creation.uuid}/iommu_group").rpartition("/")[2]
    vm = machine.hold(f"/dev/vfio/{group}", creation.uuid)

    with pytest.raises(OSError, match="no answer") as left_behind:
        await host.write_within(f"/sys/bus/mdev/devices/{creation.uuid}/remove", "1", 2.0)
    assert left_behind.value.errno == errno.ETIMEDOUT
    others = [vgpu for vgpu in scan(host).vgpus if vgpu.address != address]
    assert len(others) == 15
    # Another write has a process of its own and is not held up.
    _, other = step_for(rig, host, 3)
    path = f"/sys/bus/pci/devices/{other.function}/mdev_supported_types/{other.type_id}/create"
    await host.write_within(path, other.uuid, 30.0)
    await host.write_within(f"/sys/bus/mdev/devices/{other.uuid}/remove", "1", 30.0)

    vm.release()


async def test_a_vgpu_goes_as_it_came(rig: str, host: Any, node: Any, with_vfs: None) -> None:
    address, creation = step_for(rig, host, 2)
    await execute(node, Plan((creation,)), actor="test", reason="test")
    made = next(vgpu for vgpu in scan(host).vgpus if vgpu.address == address).configured
    assert made is not None
    assert made.type_id == creation.type_id

    removal = undo(creation)
    assert removal is not None
    await execute(node, Plan((removal,)), actor="test", reason="test")

    assert all(vgpu.configured is None for vgpu in scan(host).vgpus)
