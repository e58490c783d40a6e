"""The specification of a clone, where the simulated one does not look."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from laneway.core.vsphere.spec.resources import ResourceAllocation
from laneway.vsphere.port import Clone, FaultError, NotFoundInVCenterError, Place
from laneway.vsphere.vcenter.lookup import Target
from laneway.vsphere.vcenter.requests import clone_spec

GIB = 1 << 20


def config(devices: list[Any], **requested_item: Any) -> Any:
    clone = Clone("one", "ubuntu", Place(), "", 2, 0, 2048, **requested_item)
    target = Target(folder=None, pool=None, datastore=None, host=None, networks=())
    spec = clone_spec(clone, target, {"config.hardware.device": devices}, [])
    return spec.config


def changes(sizes: list[int], **requested_item: Any) -> list[tuple[int, int]]:
    """Key and new size in GiB of each disk that changes; the template has disks of these sizes."""
    disks = [
        vim.vm.device.VirtualDisk(key=2000 + at, capacityInKB=size * GIB)
        for at, size in enumerate(sizes)
    ]
    changed = config(disks, **requested_item).deviceChange
    return [(each.device.key, each.device.capacityInKB // GIB) for each in changed]


def test_each_disk_grows_to_its_size() -> None:
    assert changes([10, 20, 30], disk_gib=11, additional_disks_gib=(20, 33)) == [
        (2000, 11),
        (2002, 33),
    ]
    assert changes([10, 20], additional_disks_gib=(21,)) == [(2001, 21)]


def test_no_disk_shrinks_and_none_is_made() -> None:
    with pytest.raises(FaultError, match="19 GiB is requested"):
        changes([10, 20], disk_gib=10, additional_disks_gib=(19,))
    with pytest.raises(NotFoundInVCenterError, match=r"\(1\) as sizes are given \(2\)"):
        changes([10], additional_disks_gib=(19,))


def test_what_a_machine_is_kept_and_may_take() -> None:
    spec = config(
        [], cpu=ResourceAllocation(1000, 2000), memory=ResourceAllocation(shares=10), nested=True
    )
    assert (spec.cpuAllocation.reservation, spec.cpuAllocation.limit) == (1000, 2000)
    assert spec.cpuAllocation.shares is None
    assert spec.memoryAllocation.shares.level == "custom"
    assert spec.memoryAllocation.shares.shares == 10
    assert spec.nestedHVEnabled
    plain = config([])
    assert (plain.cpuAllocation, plain.memoryAllocation, plain.nestedHVEnabled) == (None,) * 3
