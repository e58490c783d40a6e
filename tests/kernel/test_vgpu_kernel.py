"""What only a real kernel does to a writer: act once, and block while somebody holds a device."""

from __future__ import annotations

import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan, RemoveMdev, SetVgpuType
from laneway.host.scan import scan
from laneway.host.steps import StepError, execute

_VFIO_SET_IOMMU = 0x3B66
_VFIO_GROUP_GET_DEVICE_FD = 0x3B6A
_VFIO_GROUP_SET_CONTAINER = 0x3B68
_VFIO_TYPE1_IOMMU = 1


@contextmanager
def held(group: int, device: str) -> Iterator[None]:
    """Hold a device as a running virtual machine does."""
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    node = os.open(f"/dev/vfio/{group}", os.O_RDWR)
    opened = -1
    try:
        fcntl.ioctl(node, _VFIO_GROUP_SET_CONTAINER, container.to_bytes(4, "little"))
        fcntl.ioctl(container, _VFIO_SET_IOMMU, _VFIO_TYPE1_IOMMU)
        opened = fcntl.ioctl(node, _VFIO_GROUP_GET_DEVICE_FD, bytearray(device.encode() + b"\0"))
        yield
    finally:
        for fd in (opened, node, container):
            if fd >= 0:
                os.close(fd)


def steps_for(rig: str, host: Any, index: int) -> tuple[PciAddress, Any]:
    """The step that makes an A2-4Q on the VF of this index."""
    function = scan(host).vgpus[index]
    kind = next(kind for kind in function.creatable if kind.name.endswith("-4Q"))
    if rig == "mdev":
        made = str(uuid.UUID(int=index + 1))
        return function.address, CreateMdev(function.address, kind.id, kind.name, made)
    return function.address, SetVgpuType(function.address, kind.id, "0", kind.name)


async def test_a_creation_that_fails_is_attempted_once(rig: str, host: Any, with_vfs: None) -> None:
    """The driver fails one creation; a second write behind our back would succeed."""
    _, step = steps_for(rig, host, 0)
    host.write("/sys/module/simgpu/parameters/fail_create", "1")

    with pytest.raises(StepError) as failure:
        await execute(host, Plan((step,)))

    assert errno.errorcode[errno.EIO] in failure.value.refusal.error
    assert scan(host).vgpus[0].configured is None


async def test_a_vgpu_in_use_is_not_waited_for(rig: str, host: Any, with_vfs: None) -> None:
    if rig != "mdev":
        pytest.skip("this driver answers at once that the vGPU is in use")
    address, creation = steps_for(rig, host, 1)
    await execute(host, Plan((creation,)))
    made = scan(host).vgpus[1].configured
    assert made is not None
    assert made.iommu_group is not None
    removal = RemoveMdev(address, made.type_id, made.type_name, made.uuid)

    with held(made.iommu_group, made.uuid):
        with pytest.raises(StepError) as failure:
            await execute(host, Plan((removal,)), write_seconds=2)
        others = [vgpu for vgpu in scan(host).vgpus if vgpu.address != address]

    assert "ETIMEDOUT" in failure.value.refusal.error
    assert len(others) == 15


async def test_a_vgpu_in_use_is_refused(rig: str, host: Any, with_vfs: None) -> None:
    if rig != "vendor":
        pytest.skip("this driver waits until the vGPU is free")
    address, creation = steps_for(rig, host, 2)
    await execute(host, Plan((creation,)))
    group = next(f.iommu_group for f in scan(host).functions if f.address == address)
    assert group is not None
    removal = SetVgpuType(address, "0", creation.type_id, creation.profile)

    with held(group, str(address)):
        with pytest.raises(StepError) as failure:
            await execute(host, Plan((removal,)))
        still = scan(host).vgpus[2].configured

    assert "EBUSY" in failure.value.refusal.error
    assert still is not None
    await execute(host, Plan((removal,)))
    assert scan(host).vgpus[2].configured is None
