"""SR-IOV of a GPU, as a real kernel shows it while it is switched."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.host.scan import scan
from support.rig import switch


def function(inventory: Inventory, address: PciAddress) -> PciFunction:
    return next(f for f in inventory.functions if f.address == address)


def test_a_gpu_without_vfs_is_seen_completely(host: Any, pf: PciAddress, without_vfs: None) -> None:
    inventory = scan(host)
    gpu = function(inventory, pf)

    assert inventory.errors == ()
    assert (gpu.vendor, gpu.device, gpu.driver) == ("10de", "25b6", "nvidia")
    assert gpu.is_gpu
    assert gpu.sriov_gpu
    assert (gpu.total_vfs, gpu.num_vfs, gpu.vfs) == (16, 0, ())
    assert gpu.iommu_group is not None
    assert gpu.upstream is not None
    assert max(bar.size for bar in gpu.bars) >= 1 << 24
    assert inventory.vgpus == ()


def test_the_vfs_come_in_the_order_of_the_kernel(host: Any, pf: PciAddress, with_vfs: None) -> None:
    inventory = scan(host)
    gpu = function(inventory, pf)

    assert gpu.num_vfs == 16
    assert [str(vf) for vf in gpu.vfs] == [
        f"0000:08:{number >> 3:02x}.{number & 7}" for number in range(4, 20)
    ]
    vfs = [function(inventory, vf) for vf in gpu.vfs]
    assert {vf.physfn for vf in vfs} == {pf}
    assert {vf.driver for vf in vfs} == {"nvidia"}
    assert len({vf.iommu_group for vf in vfs} | {gpu.iommu_group}) == 17
    assert [vgpu.address for vgpu in inventory.vgpus] == list(gpu.vfs)


async def test_vfs_announce_themselves(host: Any, pf: PciAddress, without_vfs: None) -> None:
    path = f"/sys/bus/pci/devices/{pf}/sriov_numvfs"
    added: set[str] = set()

    async with host.uevents() as events, asyncio.timeout(60):
        await asyncio.to_thread(host.write, path, "16")
        async for event in events:
            if (event.action, event.subsystem) == ("add", "pci"):
                added.add(event.properties["PCI_SLOT_NAME"])
            if event.action == "change" and event.devpath.endswith(f"/{pf}"):
                break  # the last event of the switch: everything is in place now

    assert added == {str(vf) for vf in function(scan(host), pf).vfs}
    assert len(added) == 16


@pytest.mark.parametrize(("count", "number"), [("17", errno.ERANGE), ("8", errno.EBUSY)])
def test_a_refused_switch_carries_the_errno_of_the_kernel(
    host: Any, pf: PciAddress, with_vfs: None, count: str, number: int
) -> None:
    with pytest.raises(OSError, match="Errno") as refusal:
        host.write(f"/sys/bus/pci/devices/{pf}/sriov_numvfs", count)

    assert refusal.value.errno == number
    assert function(scan(host), pf).num_vfs == 16


def test_a_failed_switch_leaves_no_vf(host: Any, pf: PciAddress, without_vfs: None) -> None:
    host.write("/sys/module/simgpu/parameters/fail_sriov", "1")

    with pytest.raises(OSError, match="Errno") as refusal:
        host.write(f"/sys/bus/pci/devices/{pf}/sriov_numvfs", "16")

    assert refusal.value.errno == errno.EIO
    assert function(scan(host), pf).vfs == ()


def test_a_gpu_that_is_pulled_is_gone_and_comes_back(
    host: Any, pf: PciAddress, without_vfs: None
) -> None:
    before = scan(host)

    host.write(f"/sys/bus/pci/devices/{pf}/remove", "1")
    gone = scan(host)
    host.write("/sys/bus/pci/rescan", "1")

    assert pf not in {f.address for f in gone.functions}
    assert gone.errors == ()
    assert scan(host).functions == before.functions


def test_a_vf_without_driver_carries_no_vgpu(host: Any, pf: PciAddress, with_vfs: None) -> None:
    vf = function(scan(host), pf).vfs[2]

    host.write(f"/sys/bus/pci/devices/{vf}/driver/unbind", str(vf))
    inventory = scan(host)
    host.write("/sys/bus/pci/drivers/nvidia/bind", str(vf))

    assert function(inventory, vf).driver == ""
    assert vf not in {vgpu.address for vgpu in inventory.vgpus}
    assert len(inventory.vgpus) == 15
    assert len(scan(host).vgpus) == 16


def test_scans_during_a_switch_are_never_torn(host: Any, pf: PciAddress, without_vfs: None) -> None:
    """Devices that come and go under a scan appear or not, and are no reason to fail."""

    async def switch_and_scan() -> list[Inventory]:
        switching = asyncio.create_task(asyncio.to_thread(_toggle, host))
        seen = []
        while not switching.done():
            seen.append(await asyncio.to_thread(scan, host))
        await switching
        return seen

    seen = asyncio.run(switch_and_scan())

    assert seen
    for inventory in seen:
        assert pf in {f.address for f in inventory.functions}
        assert inventory.errors == ()


def _toggle(host: Any) -> None:
    for count in (16, 0, 16):
        switch(host, count)
