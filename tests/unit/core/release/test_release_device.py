"""What giving a device back takes, for every kind of device."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from laneway.core.decision import Decision
from laneway.core.gpu.modes import GpuInstance, GpuModes
from laneway.core.inventory import ConfiguredVgpu, Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    DestroyComputeInstance,
    DestroyGpuInstance,
    OverrideDriver,
    Plan,
    RemoveMdev,
    ResetFunction,
    Satisfied,
    SetMixedSize,
    SetNodeOwner,
    SetVfCount,
    SetVgpuType,
    SwitchGpuVfs,
    Unbind,
    undo,
)
from laneway.core.refusals import DeviceHeld, DeviceNotFound, DeviceQuarantined
from laneway.core.release.device import release
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import set_vfs
from support.cards import CARD, USER, Scene, scene, scenes, vf_addresses
from support.devices import stick

VFS = vf_addresses(16)
Q4 = "NVIDIA A2-4Q"


def with_vgpus(one: Scene, *numbers: int) -> Scene:
    configured = {
        VFS[n]: ConfiguredVgpu("nvidia-745", Q4, f"uuid-{n}")
        if one.kernel.framework == "mdev"
        else ConfiguredVgpu("nvidia-745", Q4)
        for n in numbers
    }
    vgpus = tuple(
        replace(vgpu, configured=configured.get(vgpu.address))
        for vgpu in one.situation.inventory.vgpus
    )
    return one.but(inventory=replace(one.situation.inventory, vgpus=vgpus))


def words(decision: Decision) -> str:
    assert isinstance(decision, tuple), decision
    return "\n".join(refusal.words for refusal in decision)


# ------------------------------------------------------------------------------------ laws


@given(scenes() | scenes(free=True))
def test_what_was_released_has_nothing_more_to_give_and_can_be_taken_again(one: Scene) -> None:
    decision = release(CARD, one.situation)
    if not isinstance(decision, Plan):
        return
    after = one.kernel.run(decision.steps, one.situation)
    assert release(CARD, after) == Satisfied()
    if ResetFunction(CARD) in decision.steps:
        return  # a card that comes back from vfio-pci finds its driver by itself; so may its undo
    for length in range(len(decision.steps) + 1):
        done = decision.steps[:length]
        back = [step for step in map(undo, reversed(done)) if step is not None]
        middle = one.kernel.run(done, one.situation)
        assert one.kernel.run(back, middle) == one.situation


@given(scenes())
def test_nothing_that_is_used_needed_or_broken_is_taken(one: Scene) -> None:
    situation = one.situation
    if isinstance(release(CARD, situation), Plan):
        untouchable = {*situation.holders, *situation.inventory.critical, *situation.quarantined}
        assert not untouchable & set(one.function(CARD).vfs)


@given(scenes(free=True))
def test_what_is_not_in_use_can_always_be_released(one: Scene) -> None:
    assert not isinstance(release(CARD, one.situation), tuple)


# ------------------------------------------------------------------------------------ cards


def test_a_card_that_vms_have_nothing_of_needs_nothing() -> None:
    for gpu in (False, True):
        assert release(CARD, scene(gpu=gpu).situation) == Satisfied()
    vf = scene(existing=2)
    assert release(VFS[0], vf.situation) == Satisfied()


def test_a_network_card_loses_its_vfs() -> None:
    one = scene(existing=4)
    decision = release(CARD, one.situation)
    assert decision == Plan((SetVfCount(CARD, 0, 4),)) == set_vfs(CARD, 0, one.situation)


def test_a_gpu_is_cleared_in_the_only_order_that_works() -> None:
    modes = GpuModes(
        mig=True,
        mixed_size=True,
        instances=(GpuInstance(1, "1g.5gb", 19, 0, 1, 1), GpuInstance(2, "2g.10gb", 14, 2, 2, 0)),
    )
    one = with_vgpus(scene(gpu=True, existing=16), 2, 11).but(gpus={CARD: modes})
    assert release(CARD, one.situation) == Plan(
        (
            RemoveMdev(VFS[2], "nvidia-745", Q4, "uuid-2"),
            RemoveMdev(VFS[11], "nvidia-745", Q4, "uuid-11"),
            DestroyComputeInstance(CARD, 0),
            DestroyGpuInstance(CARD, "1g.5gb", 19, 0),
            DestroyGpuInstance(CARD, "2g.10gb", 14, 2),
            SetMixedSize(CARD, enabled=False),
            SwitchGpuVfs(CARD, enabled=False, count=16),
        )
    )


def test_gpu_instances_without_vfs_serve_the_node_and_stay() -> None:
    modes = GpuModes(mig=True, instances=(GpuInstance(1, "1g.5gb", 19, 0, 1, 1),))
    one = scene(gpu=True).but(gpus={CARD: modes})
    assert release(CARD, one.situation) == Satisfied()


def test_a_gpu_is_refused_as_a_whole_with_every_holder_named() -> None:
    one = with_vgpus(scene(gpu=True, existing=16), 2, 11, 12)
    one = one.but(holders={VFS[2]: (USER,), VFS[12]: (USER,), CARD: (USER,)})
    decision = release(CARD, one.situation)
    assert decision == tuple(
        DeviceHeld(str(address), (USER.text,)) for address in (CARD, VFS[2], VFS[12])
    )


def test_a_vf_loses_its_vgpu_only() -> None:
    one = with_vgpus(scene(gpu=True, existing=16, framework="vendor-vfio"), 2, 3)
    assert release(VFS[2], one.situation) == Plan((SetVgpuType(VFS[2], "0", "nvidia-745", Q4),))
    held = one.but(holders={VFS[2]: (USER,)})
    assert release(VFS[2], held.situation) == (DeviceHeld(str(VFS[2]), (USER.text,)),)


# ------------------------------------------------------------------------------------ passthrough


def test_a_function_on_vfio_pci_goes_back_to_its_driver() -> None:
    one = scene(gpu=True).where(CARD, driver="vfio-pci").but(overrides={CARD: "vfio-pci"})
    decision = release(CARD, one.situation)
    assert isinstance(decision, Plan)
    assert decision.steps[:3] == (
        Unbind(CARD, "vfio-pci"),
        ResetFunction(CARD),
        OverrideDriver(CARD, "", "vfio-pci"),
    )
    after = one.kernel.run(decision.steps, one.situation)
    assert after == scene(gpu=True).situation


def test_the_group_member_that_still_is_on_vfio_pci_goes_back_too() -> None:
    audio = PciFunction(
        address=PciAddress.parse("0000:08:00.1"),
        vendor="10de",
        device="10f0",
        class_code="040300",
        driver="vfio-pci",
        iommu_group=42,
    )
    one = scene(gpu=True)
    functions = (*one.situation.inventory.functions, audio)
    one = one.but(
        inventory=replace(one.situation.inventory, functions=functions),
        overrides={audio.address: "vfio-pci"},
    )
    decision = release(CARD, one.situation)
    assert isinstance(decision, Plan)
    assert decision.steps[0] == Unbind(audio.address, "vfio-pci")


def test_a_card_on_vfio_pci_keeps_it_while_one_of_its_vfs_is_held() -> None:
    one = scene(existing=4).where(CARD, driver="vfio-pci").but(overrides={CARD: "vfio-pci"})
    assert isinstance(release(CARD, one.situation), Plan)
    one = one.but(holders={VFS[3]: (USER,)})
    assert release(CARD, one.situation) == (DeviceHeld(str(VFS[3]), (USER.text,)),)


def test_a_device_in_quarantine_or_that_is_not_there() -> None:
    one = scene().but(quarantined={CARD: "Connection timed out"})
    assert release(CARD, one.situation) == (DeviceQuarantined(str(CARD), "Connection timed out"),)
    assert release(CARD, scene().but(inventory=Inventory()).situation) == (
        DeviceNotFound(str(CARD)),
    )


# ------------------------------------------------------------------------------------ USB


def test_a_usb_device_goes_back_to_its_owner() -> None:
    device = stick("3-1.2", bus=3, number=12)
    situation = Situation(
        node="node1",
        inventory=Inventory(usb=(device,)),
        usb_owners={"3-1.2": (107, 107)},
        usb_originals={"3-1.2": (0, 85)},
    )
    plan = Plan((SetNodeOwner("3-1.2", 3, 12, 0, 85, 107, 107),))
    assert release("3-1.2", situation) == plan
    assert release("3-9", situation) == (DeviceNotFound("3-9"),)
