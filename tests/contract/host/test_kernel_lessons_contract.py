"""What the real kernel taught, where a simple imitation of sysfs gives the wrong answer."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from laneway.core.pci import PciAddress
from support.machines import SECONDS, until

RIG = os.environ.get("LANEWAY_RIG", "")
PROBE = "/sys/bus/pci/drivers_probe"


def errno_of(write: Callable[..., None], *arguments: str) -> int:
    """The errno with which a write is refused, 0 when it is not."""
    try:
        write(*arguments)
    except OSError as error:
        return error.errno or 0
    return 0


# ---- 1. a removal waits for the holder, cannot be killed, and looks finished --


def test_removing_an_mdev_waits_for_its_holder_and_looks_finished(only: Any) -> None:
    gpu = only("mdev")
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    gpu.create(function, kind)
    group, uuid = gpu.vgpu_node(function)
    vm = gpu.machine.hold(group, uuid)

    removal = gpu.machine.write(*gpu.removal(function))

    assert removal.waits()
    available = gpu.path(f"mdev_supported_types/{kind.id}/available_instances", function.address)
    assert not gpu.host.exists(f"/sys/bus/mdev/devices/{uuid}")
    assert gpu.host.exists(group)
    assert gpu.host.read(available).strip() == b"0"
    removal.kill()
    assert removal.waits()
    vm.release()
    removal.finish()
    assert not gpu.host.exists(group)
    assert gpu.host.read(available).strip() == b"1"


def test_a_vgpu_of_the_vendor_framework_stays_while_it_is_held(only: Any) -> None:
    gpu = only("vendor-vfio")
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    gpu.create(function, kind)
    vm = gpu.machine.hold(*gpu.vgpu_node(function))

    assert errno_of(gpu.remove, function) == errno.EBUSY
    assert gpu.functions()[0].configured.type_id == kind.id
    vm.release()
    gpu.remove(function)
    assert gpu.functions()[0].configured is None


def test_unbinding_from_vfio_waits_for_the_holder_and_looks_finished(nvme: Any) -> None:
    vf = vfs_of(nvme)[0]
    nvme.give_to_vfio(vf)
    group = nvme.group_node(vf)
    vm = nvme.machine.hold(group, str(vf))

    unbinding = nvme.machine.write("/sys/bus/pci/drivers/vfio-pci/unbind", str(vf))

    assert unbinding.waits()
    assert nvme.driver(vf) == ""
    assert nvme.host.exists(group)
    unbinding.kill()
    assert unbinding.waits()
    vm.release()
    unbinding.finish()
    assert not nvme.host.exists(group)


def vfs_of(nvme: Any, count: int = 4) -> list[PciAddress]:
    """VFs that no driver took."""
    nvme.host.write(nvme.path("sriov_drivers_autoprobe"), "0")
    nvme.switch(count)
    return nvme.virtfns()


# ---- 2. SR-IOV off with a held VF blocks the PCI core of the whole host -------


def test_switching_off_waits_for_the_holder_of_a_vf_and_everybody_for_that(nvme: Any) -> None:
    vfs = vfs_of(nvme)
    nvme.give_to_vfio(vfs[1])
    vm = nvme.machine.hold(nvme.group_node(vfs[1]), str(vfs[1]))

    switch = nvme.machine.write(nvme.path("sriov_numvfs"), "0")
    assert switch.waits()
    reader = nvme.machine.read(nvme.path("sriov_numvfs"))
    rescan = nvme.machine.write("/sys/bus/pci/rescan", "1")
    assert reader.waits()
    assert rescan.waits()

    # What a scan reads never waits. The link of a VF goes before it waits for its holder.
    assert nvme.host.read(nvme.path("sriov_totalvfs")).strip() == b"4"
    assert nvme.virtfns() == vfs[2:]
    with ThreadPoolExecutor() as pool:
        scanning = pool.submit(nvme.look)
        try:
            inventory = scanning.result(SECONDS)
        finally:
            vm.release()
    assert inventory.errors == ()
    assert vfs[1] in {function.address for function in inventory.functions}

    switch.finish()
    assert reader.finish() == "0"
    rescan.finish()
    assert nvme.virtfns() == []


# ---- 3. sriov_numvfs knows only 0 to N and N to 0, and is visible half way ----


def test_the_vfs_of_a_gpu_go_up_from_0_only(gpu: Any) -> None:
    assert_changes_are_refused(gpu)


def test_the_vfs_of_an_nvme_controller_go_up_from_0_only(nvme: Any) -> None:
    vfs_of(nvme)
    assert_changes_are_refused(nvme)


def assert_changes_are_refused(device: Any) -> None:
    total, vfs = device.function().total_vfs, device.virtfns()
    path = device.path("sriov_numvfs")

    assert len(vfs) == total
    assert errno_of(device.host.write, path, str(total + 1)) == errno.ERANGE
    assert errno_of(device.host.write, path, str(total - 1)) == errno.EBUSY
    assert errno_of(device.host.write, path, str(total)) == 0
    assert errno_of(device.host.write, path, "x") == errno.EINVAL
    assert device.virtfns() == vfs


def test_a_plain_write_does_not_take_the_vfs_of_a_gpu(gpu: Any) -> None:
    vfs = gpu.virtfns()

    assert errno_of(gpu.host.write, gpu.path("sriov_numvfs"), "0") == errno.EPERM
    assert gpu.virtfns() == vfs


def test_fewer_vfs_than_there_are_go_through_0(nvme: Any) -> None:
    before = vfs_of(nvme)
    nvme.switch(0)
    assert nvme.virtfns() == []
    assert not any(nvme.host.exists(nvme.path(of=vf)) for vf in before)
    nvme.switch(2)
    assert nvme.virtfns() == before[:2]


def test_vfs_leave_the_slot_of_their_pf_and_sort_by_number(gpu: Any) -> None:
    vfs = gpu.virtfns()
    links = sorted(name for name in gpu.host.names(gpu.path()) if name.startswith("virtfn"))

    assert vfs == sorted(vfs)
    assert {vf.device for vf in vfs} > {gpu.address.device}
    assert links[:3] == ["virtfn0", "virtfn1", "virtfn10"]
    assert gpu.function().vfs == tuple(vfs)


@pytest.mark.parametrize("driver", ["vfio-pci", ""])
def test_only_a_driver_that_knows_sriov_makes_vfs(nvme: Any, driver: str) -> None:
    nvme.bind("vfio-pci")
    if not driver:
        nvme.unbind()
    assert nvme.driver() == driver

    assert errno_of(nvme.switch, 4) == errno.ENOENT
    assert nvme.virtfns() == []


async def test_vfs_are_seen_before_all_are_there(gpu: Any) -> None:
    await gpu.switch(on=False)
    gpu.machine.knob("slow_ms", gpu.machine.slow_ms)

    switch = gpu.machine.write(gpu.path("sriov_numvfs"), "4")
    first: list[Any] = []

    def there() -> bool:
        first[:] = gpu.virtfns()
        return bool(first)

    until(there)
    reader = gpu.machine.read(gpu.path("sriov_numvfs"))
    assert reader.waits()
    assert len(first) < 4
    assert gpu.look().errors == ()

    switch.finish()
    assert reader.finish() == "4"
    assert len(gpu.virtfns()) == 4


# ---- 4. drivers_probe reports success when probing failed ---------------------


def test_a_failed_probe_is_reported_by_bind_only(gpu: Any) -> None:
    vf = gpu.virtfns()[0]
    gpu.unbind(vf)

    gpu.machine.knob("fail_probe", 1)
    assert errno_of(gpu.host.write, PROBE, str(vf)) == 0
    assert gpu.driver(vf) == ""
    gpu.machine.knob("fail_probe", 1)
    assert errno_of(gpu.host.write, "/sys/bus/pci/drivers/nvidia/bind", str(vf)) == errno.EIO
    assert gpu.driver(vf) == ""
    gpu.host.write(PROBE, str(vf))
    assert gpu.driver(vf) == "nvidia"


def test_vfio_pci_takes_a_vf_of_a_vgpu_card_only_where_its_vgpus_are_mdevs(gpu: Any) -> None:
    vf = gpu.virtfns()[0]
    gpu.unbind(vf)
    gpu.host.write(gpu.path("driver_override", vf), "vfio-pci")
    expected = 0 if gpu.framework == "mdev" else errno.EINVAL

    assert errno_of(gpu.host.write, "/sys/bus/pci/drivers/vfio-pci/bind", str(vf)) == expected

    assert gpu.driver(vf) == ("vfio-pci" if gpu.framework == "mdev" else "")
    gpu.bind("", vf)
    assert gpu.driver(vf) == "nvidia"
    assert len(gpu.functions()) == len(gpu.virtfns())


def test_a_misspelt_override_keeps_every_driver_away(gpu: Any) -> None:
    vf = gpu.virtfns()[0]
    override = gpu.path("driver_override", vf)
    gpu.unbind(vf)
    gpu.host.write(override, "vfio-pcy")

    assert errno_of(gpu.host.write, PROBE, str(vf)) == 0
    assert gpu.driver(vf) == ""
    assert errno_of(gpu.host.write, "/sys/bus/pci/drivers/nvidia/bind", str(vf)) == errno.ENODEV
    gpu.host.write(override, "")
    assert gpu.host.read(override) == b"vfio-pcy\n"
    gpu.host.write(override, "\n")
    assert gpu.host.read(override) == b"(null)\n"
    gpu.host.write(PROBE, str(vf))
    assert gpu.driver(vf) == "nvidia"


def test_unbinding_the_driver_deletes_the_vgpu_for_good(gpu: Any) -> None:
    function = gpu.functions()[0]
    gpu.create(function, gpu.profile("-4Q"))

    gpu.unbind(function.address)
    gpu.host.write(PROBE, str(function.address))

    found = gpu.functions()
    assert found[0].address == function.address
    assert {f.configured for f in found} == {None}
    assert len({f.creatable for f in found}) == 1


# ---- 5. a write that fails is made once ---------------------------------------


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINVAL])
def test_a_refused_creation_is_not_written_a_second_time(gpu: Any, number: int) -> None:
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    gpu.machine.knob("fail_errno", number)
    gpu.machine.knob("fail_create", 1)

    assert errno_of(gpu.create, function, kind) == number

    assert gpu.functions()[0].configured is None
    gpu.create(function, kind)
    assert gpu.functions()[0].configured.type_id == kind.id


# ---- 6. a VF is announced before its links exist ------------------------------


async def test_the_events_of_a_vf_and_then_one_change_of_its_pf(gpu: Any) -> None:
    await gpu.switch(on=False)
    seen: list[tuple[str, str]] = []

    async with gpu.host.uevents() as events, asyncio.timeout(60):
        await asyncio.to_thread(gpu.host.write, gpu.path("sriov_numvfs"), "2")
        async for event in events:
            device = event.devpath.rpartition("/")[2]
            if event.subsystem == "pci":
                seen.append((device, event.properties.get("MDEV_STATE", event.action)))
            if seen[-1:] == [(str(gpu.address), "change")]:
                break

    registered = ["registered"] if gpu.framework == "mdev" else []
    for vf in gpu.virtfns():
        mine = [action for device, action in seen if device == str(vf)]
        assert mine == ["add", "change", *registered, "bind"]
    assert len(gpu.virtfns()) == 2
    assert gpu.function().num_vfs == 2


# ---- 7. IOMMU groups: bound members count, and numbers are reused -------------


def test_a_group_is_usable_while_no_member_has_an_ordinary_driver(shared_group: Any) -> None:
    if RIG == "vendor":
        pytest.skip("the rig's driver of this framework leaves groups usable")
    gpu, audio = shared_group.address, shared_group.audio
    machine, group = shared_group.machine, shared_group.group_node()
    assert shared_group.driver() == "nvidia"

    shared_group.bind("vfio-pci", audio)
    assert shared_group.group_node(audio) == group
    with pytest.raises(OSError, match=group) as refusal:
        machine.hold(group, str(audio))
    assert refusal.value.errno == errno.EPERM
    shared_group.unbind()
    machine.hold(group, str(audio)).release()
    shared_group.bind("vfio-pci", gpu)
    machine.hold(group, str(gpu)).release()


async def test_the_number_of_a_group_goes_to_the_next_device(only: Any) -> None:
    gpu = only("mdev")
    former = {gpu.group_node(vf) for vf in gpu.virtfns()}
    await gpu.switch(on=False)
    assert not any(gpu.host.exists(node) for node in former)
    gpu.host.write(gpu.path("sriov_numvfs"), "2")
    function = gpu.functions()[0]

    gpu.create(function, gpu.profile("-4Q"))

    assert gpu.vgpu_node(function)[0] in former
