"""Functions given to vfio-pci and back: requested, decided, carried out and read back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from laneway.core.decision import Decision
from laneway.core.passthrough.binding import bind, release
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import DriverReserved
from laneway.core.situation import Situation
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.situation import observe
from support.machines import SECONDS, hardware

RIG = os.environ.get("LANEWAY_RIG", "")
BRIEF = Limits(write_seconds=SECONDS, settle_seconds=0.5)


class Scene:
    """A device, asked and changed as the agent and the command line do it."""

    def __init__(self, device: Any, folder: Path, functions: Iterable[PciAddress]) -> None:
        self.device = device
        self.address: PciAddress = device.address
        self.hardware = hardware(device.machine, folder)
        self.functions = tuple(functions)

    async def look(self, address: PciAddress | None = None) -> Situation:
        """What must never wait, whatever another process does to the device."""
        looking = observe(self.hardware, "node", [address or self.address])
        return await asyncio.wait_for(looking, SECONDS)

    async def decide(
        self, what: Callable[[PciAddress, Situation], Decision], address: PciAddress | None = None
    ) -> Decision:
        return what(address or self.address, await self.look(address))

    async def carry_out(self, decision: Decision) -> None:
        assert isinstance(decision, Plan), decision
        await execute(self.hardware, decision, actor="test", reason="contract", limits=BRIEF)

    async def have(
        self, what: Callable[[PciAddress, Situation], Decision], address: PciAddress | None = None
    ) -> None:
        """Desired state for it, get it, and find the desired state fulfilled."""
        await self.carry_out(await self.decide(what, address))
        assert await self.decide(what, address) == Satisfied()

    async def refusal(
        self, what: Callable[[PciAddress, Situation], Decision], address: PciAddress | None = None
    ) -> str:
        decision = await self.decide(what, address)
        assert isinstance(decision, tuple), decision
        return "\n".join(refusal.words for refusal in decision)

    def drivers(self) -> list[str]:
        return [self.device.driver(function) for function in self.functions]

    def overrides(self) -> list[str]:
        paths = [self.device.path("driver_override", function) for function in self.functions]
        return [self.device.host.read(path).decode().strip() for path in paths]

    def state(self) -> tuple[list[str], list[str]]:
        return self.drivers(), self.overrides()


@pytest.fixture
def pair(shared_group: Any, tmp_path: Path) -> Scene:
    """A GPU and its audio function, which share an IOMMU group."""
    return Scene(shared_group, tmp_path, [shared_group.address, shared_group.audio])


@pytest.fixture
def disk(nvme: Any, tmp_path: Path) -> Scene:
    """An NVMe controller alone in its group, which the node does not need."""
    return Scene(nvme, tmp_path, [nvme.address])


def group_node(scene: Scene) -> tuple[str, str]:
    """The VFIO group of the device and its name there, for a VM to open."""
    return scene.device.group_node(), str(scene.address)


# ---- a whole group -----------------------------------------------------------


@pytest.mark.parametrize("asked", ["gpu", "audio"])
async def test_a_group_goes_and_comes_back_as_a_whole(pair: Scene, asked: str) -> None:
    before = pair.state()
    function = pair.address if asked == "gpu" else pair.device.audio
    await pair.have(bind, function)
    assert pair.state() == (["vfio-pci", "vfio-pci"], ["vfio-pci", "vfio-pci"])
    # A VM can open the group, which it could not when one member had another driver.
    pair.device.machine.hold(*group_node(pair)).release()
    await pair.have(release, function)
    assert pair.state() == before


async def test_what_a_driver_had_is_remembered_until_it_is_back(pair: Scene) -> None:
    drivers = dict(zip(pair.functions, pair.drivers(), strict=True))
    await pair.have(bind)
    assert pair.hardware.state.originals == drivers
    await pair.have(release)
    assert pair.hardware.state.originals == {}


async def test_a_group_that_a_vm_has_is_not_taken_away(pair: Scene) -> None:
    await pair.have(bind)
    vm = pair.device.machine.hold(*group_node(pair))
    for function in pair.functions:
        reported = await pair.refusal(release, function)
        assert f"process {vm.pid} (" in reported
        assert f"has {pair.device.group_node()} open" in reported
        # To be given again changes nothing for who has it already.
        assert await pair.decide(bind, function) == Satisfied()
    vm.release()
    await pair.have(release)


async def test_a_vm_that_starts_at_the_last_moment_keeps_its_group(pair: Scene) -> None:
    await pair.have(bind)
    plan = await pair.decide(release)
    vm = pair.device.machine.hold(*group_node(pair))
    with pytest.raises(StepError, match=f"process {vm.pid} "):
        await pair.carry_out(plan)
    assert pair.drivers() == ["vfio-pci", "vfio-pci"]
    vm.release()
    await pair.have(release)


async def test_half_a_group_never_stays(pair: Scene) -> None:
    before = pair.state()
    plan = await pair.decide(bind)
    # Meanwhile another caller wants the second function.
    audio = pair.device.path("driver_override", pair.device.audio)
    pair.device.host.write(audio, "pci-stub")
    with pytest.raises(StepError):
        await pair.carry_out(plan)
    assert (pair.drivers()[0], pair.overrides()) == (before[0][0], [before[1][0], "pci-stub"])
    pair.device.bind("", pair.device.audio)
    assert pair.state() == before


async def test_a_removal_that_waits_for_a_vm_is_seen_and_left_alone(pair: Scene) -> None:
    await pair.have(bind)
    vm = pair.device.machine.hold(*group_node(pair))
    # An administrator at the shell does what Laneway refuses to do.
    removal = pair.device.machine.write(pair.device.path("driver/unbind"), str(pair.address))
    assert removal.waits()
    assert pair.device.driver() == ""
    for decide in (bind, release):
        assert f"process {vm.pid} (" in await pair.refusal(decide)
    vm.release()
    removal.finish()
    await pair.have(release)


@pytest.mark.skipif(bool(RIG), reason="the guest has no display")
@pytest.mark.parametrize("asked", ["gpu", "audio"])
async def test_the_console_leaves_a_boot_gpu(pair: Scene, asked: str) -> None:
    before = await pair.look()
    assert [console.attached for console in before.consoles] == [False, True]
    assert before.framebuffers
    await pair.have(bind, pair.address if asked == "gpu" else pair.device.audio)
    after = await pair.look()
    assert not any(console.attached for console in after.consoles if "(M)" in console.name)
    assert after.framebuffers == ()


@pytest.mark.skipif(bool(RIG), reason="the guest has no display")
async def test_the_console_comes_back_when_the_gpu_cannot_go(pair: Scene) -> None:
    before = await pair.look()
    plan = await pair.decide(bind)
    pair.device.machine.knob("fail_probe", 1)
    with pytest.raises(StepError, match="EIO"):
        await pair.carry_out(plan)
    after = await pair.look()
    assert (after.consoles, after.framebuffers) == (before.consoles, before.framebuffers)


# ---- interrupted, wrong or half-way ------------------------------------------


async def test_a_reservation_of_another_is_left_as_it_is(pair: Scene) -> None:
    before = pair.state()
    pair.device.bind("vfio-pcj")
    reserved = pair.state()
    assert pair.drivers()[0] == ""
    decision = bind(pair.device.address, await pair.look())
    assert decision == (DriverReserved(str(pair.device.address), "vfio-pcj"),)
    assert pair.state() == reserved
    pair.device.bind("")
    assert pair.state() == before
    await pair.have(bind)
    assert pair.drivers() == ["vfio-pci", "vfio-pci"]
    await pair.have(release)
    assert pair.state() == before


async def test_what_was_left_reserved_without_driver_comes_back(pair: Scene) -> None:
    before = pair.state()
    await pair.have(bind)
    pair.device.unbind()
    await pair.have(release)
    assert pair.state() == before


async def test_what_another_gave_to_vfio_pci_comes_back(pair: Scene) -> None:
    before = pair.state()
    pair.device.bind("vfio-pci")
    pair.device.bind("vfio-pci", pair.device.audio)
    assert await pair.decide(bind) == Satisfied()
    await pair.have(release)
    assert pair.state() == before


async def test_releasing_what_is_not_claimed_does_nothing(pair: Scene) -> None:
    assert await pair.decide(release) == Satisfied()


# ---- a disk, and its VFs -----------------------------------------------------


async def test_a_disk_goes_and_comes_back(disk: Scene) -> None:
    before = disk.state()
    await disk.have(bind)
    assert disk.state() == (["vfio-pci"], ["vfio-pci"])
    await disk.have(release)
    assert disk.state() == before


async def test_a_disk_that_a_process_has_open_is_not_taken_away(disk: Scene) -> None:
    [name] = disk.device.host.names(disk.device.path("nvme"))
    user = disk.device.machine.hold(f"/dev/{name}")
    assert f"process {user.pid} (" in await disk.refusal(bind)
    user.release()
    await disk.have(bind)
    await disk.have(release)


async def test_a_failing_probe_leaves_everything_as_it_was(disk: Scene) -> None:
    before = disk.state()
    plan = await disk.decide(bind)
    # vfio-pci refuses a card that has VFs. Laneway does too, but these come too late for it.
    disk.device.switch(1)
    assert "virtual functions are enabled" in await disk.refusal(bind)
    with pytest.raises(StepError, match="EBUSY"):
        await disk.carry_out(plan)
    assert disk.state() == before
    disk.device.switch(0)
    await disk.have(bind)
    await disk.have(release)
    assert disk.state() == before


def two_vfs(disk: Scene) -> list[PciAddress]:
    """VFs that no driver of the node is given."""
    disk.device.host.write(disk.device.path("sriov_drivers_autoprobe"), "0")
    disk.device.switch(2)
    return disk.device.virtfns()


async def test_a_vf_goes_and_comes_back_without_its_siblings(disk: Scene) -> None:
    first, second = two_vfs(disk)
    await disk.have(bind, first)
    assert [disk.device.driver(vf) for vf in (first, second)] == ["vfio-pci", ""]
    await disk.have(release, first)
    assert [disk.device.driver(vf) for vf in (first, second)] == ["", ""]


async def test_looking_never_waits_while_a_held_vf_is_being_removed(disk: Scene) -> None:
    [first, _] = two_vfs(disk)
    await disk.have(bind, first)
    vm = disk.device.machine.hold(disk.device.group_node(first), str(first))
    removal = disk.device.machine.write(disk.device.path("sriov_numvfs"), "0")
    assert removal.waits()
    # The links between card and VF are gone, and both are locked.
    reported = await disk.refusal(bind)
    assert f"it is losing {first}, but process {vm.pid} (" in reported
    assert f"process {vm.pid} (" in await disk.refusal(release, first)
    vm.release()
    removal.finish()
    assert disk.device.virtfns() == []


# ---- GPUs with vGPUs ---------------------------------------------------------


async def test_a_card_with_vfs_and_its_vfs_are_refused_with_the_remedy(
    gpu: Any, tmp_path: Path
) -> None:
    card = Scene(gpu, tmp_path, [gpu.address])
    assert "or disable these" in await card.refusal(bind)
    [vf, *_] = gpu.virtfns()
    assert "Configure a vGPU" in await card.refusal(bind, vf)
    function, kind = gpu.functions()[0], gpu.profile("-4Q")
    gpu.create(function, kind)
    assert f"{function.address} has {kind.name}" in await card.refusal(bind)
    assert "Use the vGPU in the VM" in await card.refusal(bind, function.address)


async def test_a_device_that_is_not_there_is_refused(disk: Scene) -> None:
    gone = PciAddress(0, 0xFE, 0, 0)
    assert f"Device {gone} does not exist" in await disk.refusal(bind, gone)
    assert f"Device {gone} does not exist" in await disk.refusal(release, gone)
