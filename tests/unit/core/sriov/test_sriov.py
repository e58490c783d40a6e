"""How many virtual functions a card has: laws for any card, and the cases one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.decision import Decision, refusals_of
from laneway.core.gpu.modes import GpuInstance, GpuModes
from laneway.core.inventory import ConfiguredVgpu, DeviceError, Inventory
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    OverrideDriver,
    Plan,
    Probe,
    Satisfied,
    SetAutoprobe,
    SetVfCount,
    SwitchGpuVfs,
    Unbind,
    undo,
)
from laneway.core.refusals import (
    DeviceHeld,
    DeviceNotFound,
    DeviceQuarantined,
    DeviceUnusable,
    DriverMissing,
    GpuVfCountInvalid,
    HoldersUnknown,
    NoSriov,
    ToolMissing,
    VfCountInvalid,
    VgpuUnsupported,
)
from laneway.core.situation import Holder, glance
from laneway.core.sriov.vfs import set_vfs, switch_gpu
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec
from support.cards import CARD, USER, Scene, scene, scenes, vf_addresses

VFS = vf_addresses(16)


def reasons(decision: Decision) -> list[str]:
    assert isinstance(decision, tuple), decision
    return [refusal.reason for refusal in decision]


def words(decision: Decision) -> str:
    assert isinstance(decision, tuple), decision
    return "\n".join(refusal.words for refusal in decision)


# ------------------------------------------------------------------------------------ laws


@given(scenes(gpu=False, free=True), st.integers(0, 8), st.booleans())
def test_a_card_that_the_node_uses_itself_gets_back_what_it_had_and_no_other_number(
    one: Scene, count: int, restores: bool
) -> None:
    free = set_vfs(CARD, count, one.situation)
    uplink = ("serves the node's network: ens3 has the address 10.9.0.5/24",)
    used = one.but(inventory=replace(one.situation.inventory, critical={CARD: uplink}))
    decision = set_vfs(CARD, count, used.situation, restores=restores)
    if not isinstance(free, Plan):
        assert type(decision) is type(free)
    elif restores:
        assert isinstance(decision, Plan)
        assert {type(step) for step in decision.steps} == {type(step) for step in free.steps}
    else:
        assert reasons(decision) == ["CriticalToNode"]


@given(scenes(gpu=False) | scenes(gpu=False, free=True), st.integers(-1, 9), st.booleans())
def test_a_plan_leads_to_what_was_requested_and_back(
    one: Scene, count: int, passthrough: bool
) -> None:
    decision = set_vfs(CARD, count, one.situation, passthrough=passthrough)
    if isinstance(decision, Plan):
        after = one.kernel.run(decision.steps, one.situation)
        assert set_vfs(CARD, count, after, passthrough=passthrough) == Satisfied()
        assert_undone(one, decision)
    elif isinstance(decision, tuple):
        assert all(refusal.words for refusal in decision)
    else:
        assert one.function(CARD).num_vfs == count


@given(scenes(gpu=True) | scenes(gpu=True, free=True), st.booleans())
def test_a_gpu_is_switched_and_back(one: Scene, enabled: bool) -> None:
    # Mixed sizes are the layout's business: it knows when it sets them again.
    modes = replace(one.situation.gpus[CARD], mixed_size=False)
    empty = tuple(replace(vgpu, configured=None) for vgpu in one.situation.inventory.vgpus)
    one = one.but(gpus={CARD: modes}, inventory=replace(one.situation.inventory, vgpus=empty))
    decision = switch_gpu(CARD, enabled, one.situation)
    if isinstance(decision, Plan):
        after = one.kernel.run(decision.steps, one.situation)
        assert switch_gpu(CARD, enabled, after) == Satisfied()
        assert_undone(one, decision)


@given(scenes(), st.integers(0, 8))
def test_nothing_that_is_used_needed_or_broken_is_ever_taken(one: Scene, count: int) -> None:
    decision = set_vfs(CARD, count, one.situation)
    if not isinstance(decision, Plan):
        return
    situation = one.situation
    untouchable = {*situation.holders, *situation.inventory.critical, *situation.quarantined}
    assert not untouchable & set(one.function(CARD).vfs)
    assert CARD not in situation.quarantined


@given(scenes(gpu=False, free=True), st.data())
def test_a_card_that_is_not_in_use_gets_any_number_in_range(
    one: Scene, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, one.function(CARD).total_vfs or 0))
    assert not isinstance(set_vfs(CARD, count, one.situation), tuple)


def assert_undone(one: Scene, plan: Plan) -> None:
    """Every beginning of the plan, undone in reverse, leaves things as they were."""
    for length in range(len(plan.steps) + 1):
        done = plan.steps[:length]
        middle = one.kernel.run(done, one.situation)
        back = [step for step in map(undo, reversed(done)) if step is not None]
        assert one.kernel.run(back, middle) == one.situation


# ------------------------------------------------------------------------------------ counts


def test_vfs_for_passthrough_are_not_offered_to_the_nodes_drivers() -> None:
    assert set_vfs(CARD, 4, scene().situation) == Plan(
        (SetAutoprobe(CARD, enabled=False), SetVfCount(CARD, 4, 0))
    )


def test_vfs_for_the_node_find_their_drivers() -> None:
    assert set_vfs(CARD, 4, scene().situation, passthrough=False) == Plan((SetVfCount(CARD, 4, 0),))
    silenced = scene().but(autoprobe={CARD: False})
    assert set_vfs(CARD, 4, silenced.situation, passthrough=False) == Plan(
        (SetAutoprobe(CARD, enabled=True), SetVfCount(CARD, 4, 0))
    )


def test_another_number_goes_through_none() -> None:
    one = scene(existing=4).but(autoprobe={CARD: False})
    one = one.where(VFS[0], driver="").where(VFS[2], driver="").where(VFS[3], driver="")
    assert set_vfs(CARD, 6, one.situation) == Plan(
        (Unbind(VFS[1], "iavf"), SetVfCount(CARD, 0, 4), SetVfCount(CARD, 6, 0))
    )


def test_vfs_leave_vfio_pci_before_they_go_in_the_order_of_their_numbers() -> None:
    one = scene(existing=12).but(overrides={VFS[11]: "vfio-pci"}, autoprobe={CARD: False})
    for address in VFS[:12]:
        one = one.where(address, driver="")
    by_number = (VFS[2], VFS[11])  # as text, virtfn11 comes before virtfn2
    for address in by_number:
        one = one.where(address, driver="vfio-pci")
    assert set_vfs(CARD, 0, one.situation) == Plan(
        (
            Unbind(VFS[2], "vfio-pci"),
            Unbind(VFS[11], "vfio-pci"),
            OverrideDriver(VFS[11], "", "vfio-pci"),
            SetVfCount(CARD, 0, 12),
            SetAutoprobe(CARD, enabled=True),
        )
    )


def test_vfs_that_drivers_would_grab_on_the_way_back_wait_for_their_own() -> None:
    one = scene(existing=2).where(VFS[1], driver="vfio-pci")
    assert set_vfs(CARD, 0, one.situation) == Plan(
        (
            Unbind(VFS[0], "iavf"),
            Unbind(VFS[1], "vfio-pci"),
            SetAutoprobe(CARD, enabled=False),
            SetVfCount(CARD, 0, 2),
            SetAutoprobe(CARD, enabled=True),
        )
    )


def test_without_vfs_the_kernels_default_is_back() -> None:
    one = scene(existing=1).but(autoprobe={CARD: False}).where(VFS[0], driver="")
    assert set_vfs(CARD, 0, one.situation) == Plan(
        (SetVfCount(CARD, 0, 1), SetAutoprobe(CARD, enabled=True))
    )


def test_a_kernel_without_the_switch_for_probing_gets_no_write() -> None:
    assert set_vfs(CARD, 2, scene().but(autoprobe={}).situation) == Plan((SetVfCount(CARD, 2, 0),))


def test_the_number_that_is_there_needs_nothing_even_while_all_are_in_use() -> None:
    one = scene(existing=4).but(holders={VFS[0]: (USER,)})
    assert set_vfs(CARD, 4, one.situation) == Satisfied()
    assert set_vfs(CARD, 0, scene().situation) == Satisfied()


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("count", [-1, 17, 1 << 40])
def test_a_number_out_of_range_says_the_range(count: int) -> None:
    decision = set_vfs(CARD, count, scene().situation)
    assert decision == (VfCountInvalid(str(CARD), count, 16),)
    assert "0 to 16" in words(decision)


def test_every_holder_is_named_and_everything_else_that_is_wrong_too() -> None:
    one = scene(existing=4).where(CARD, driver="")
    one = one.but(holders={VFS[1]: (USER,), VFS[3]: (USER, USER)})
    decision = set_vfs(CARD, 99, one.situation)
    assert reasons(decision) == ["VfCountInvalid", "DriverMissing", "DeviceInUse", "DeviceInUse"]
    assert "process 4711 (qemu-system-x86)" in words(decision)


def test_a_held_vf_forbids_more_as_well_as_fewer() -> None:
    one = scene(existing=4).but(holders={VFS[1]: (USER,)})
    for count in (0, 3, 5):
        assert set_vfs(CARD, count, one.situation) == (DeviceHeld(str(VFS[1]), (USER.text,)),)


def test_the_nodes_own_vf_stays() -> None:
    one = scene(existing=2)
    inventory = replace(one.situation.inventory, critical={VFS[0]: ("carries the default route",)})
    decision = set_vfs(CARD, 0, one.but(inventory=inventory).situation)
    assert [type(refusal) for refusal in decision] == [DeviceUnusable]  # type: ignore[union-attr]
    assert "carries the default route" in words(decision)


def test_nothing_is_taken_while_users_cannot_be_seen_but_vfs_can_be_added() -> None:
    visibility_error = "Laneway runs in a PID namespace of its own"
    assert set_vfs(CARD, 0, scene(existing=9).but(visibility_error=visibility_error).situation) == (
        HoldersUnknown(visibility_error),
    )
    assert isinstance(
        set_vfs(CARD, 4, scene().but(visibility_error=visibility_error).situation), Plan
    )


def test_a_card_that_is_losing_a_held_vf_is_left_alone_even_if_the_number_is_right() -> None:
    losing = Holder("process", f"it is losing {VFS[2]}, but process 4711 (qemu) has it open")
    one = scene(existing=2).but(holders={CARD: (losing,)}, locked=frozenset({CARD}))
    for count in (0, 2, 4):
        assert set_vfs(CARD, count, one.situation) == (DeviceHeld(str(CARD), (losing.text,)),)


def test_who_uses_the_card_itself_may_go_on_while_it_gets_vfs() -> None:
    one = scene(existing=2).but(holders={CARD: (Holder("network", "it has an address"),)})
    assert isinstance(set_vfs(CARD, 4, one.situation), Plan)


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_a_card_without_its_driver_makes_no_vfs(driver: str) -> None:
    one = scene().where(CARD, driver=driver).but(originals={CARD: "ice"})
    assert set_vfs(CARD, 4, one.situation) == (DriverMissing(str(CARD), driver, "ice"),)


def test_the_remedy_for_a_card_on_vfio_pci_is_to_give_it_back() -> None:
    one = scene().where(CARD, driver="vfio-pci")
    assert f"laneway host release {CARD}" in words(set_vfs(CARD, 4, one.situation))


def test_a_card_that_cannot() -> None:
    for total in (None, 0):
        one = scene().where(CARD, total_vfs=total)
        assert set_vfs(CARD, 4, one.situation) == (NoSriov(str(CARD)),)


def test_a_card_that_is_not_there_or_could_not_be_read() -> None:
    nothing = scene().but(inventory=Inventory())
    assert set_vfs(CARD, 4, nothing.situation) == (DeviceNotFound(str(CARD)),)
    error = DeviceError(str(CARD), "cannot be read: Input/output error")
    broken = scene().but(inventory=Inventory(errors=(error,)))
    assert "Input/output error" in words(set_vfs(CARD, 4, broken.situation))
    assert "Input/output error" in words(switch_gpu(CARD, True, broken.situation))


def test_a_card_that_answers_no_more_is_not_even_as_desired() -> None:
    one = scene(existing=4).but(silent=frozenset({CARD}))
    assert "no longer answers" in words(set_vfs(CARD, 4, one.situation))


def test_quarantine_holds_for_the_card_and_for_each_vf() -> None:
    error = "Connection timed out"
    one = scene(existing=2).but(quarantined={CARD: error, VFS[1]: error})
    assert set_vfs(CARD, 0, one.situation) == (
        DeviceQuarantined(str(CARD), error),
        DeviceQuarantined(str(VFS[1]), error),
    )


# ------------------------------------------------------------------------------------ GPUs


def test_a_gpus_vfs_are_switched_by_nvidias_program() -> None:
    assert switch_gpu(CARD, True, scene(gpu=True).situation) == Plan(
        (SwitchGpuVfs(CARD, enabled=True, count=16),)
    )
    assert switch_gpu(CARD, False, scene(gpu=True, existing=16).situation) == Plan(
        (SwitchGpuVfs(CARD, enabled=False, count=16),)
    )


def test_a_gpus_vf_on_vfio_pci_goes_back_to_the_driver_first() -> None:
    one = scene(gpu=True, existing=16).where(VFS[2], driver="vfio-pci")
    assert switch_gpu(CARD, False, one.but(overrides={VFS[2]: "vfio-pci"}).situation) == Plan(
        (
            Unbind(VFS[2], "vfio-pci"),
            OverrideDriver(VFS[2], "", "vfio-pci"),
            Probe(VFS[2], "nvidia"),
            SwitchGpuVfs(CARD, enabled=False, count=16),
        )
    )


def test_a_number_for_a_gpu_is_all_or_none() -> None:
    one = scene(gpu=True)
    assert set_vfs(CARD, 16, one.situation) == switch_gpu(CARD, True, one.situation)
    decision = set_vfs(CARD, 4, one.situation)
    assert decision == (GpuVfCountInvalid(str(CARD), 4, 16),)
    assert "request 16 or 0" in words(decision)
    assert reasons(set_vfs(CARD, 17, one.situation)) == ["VfCountInvalid"]


def test_driver_and_program_must_be_there() -> None:
    one = scene(gpu=True).where(CARD, driver="nouveau").but(sriov_manage=False)
    assert [type(refusal) for refusal in switch_gpu(CARD, True, one.situation)] == [  # type: ignore[union-attr]
        DriverMissing,
        ToolMissing,
    ]


def test_without_an_iommu_functions_can_go_but_not_come() -> None:
    without = scene(gpu=True).where(CARD, iommu_group=None)
    assert reasons(switch_gpu(CARD, True, without.situation)) == ["NoIommuGroup"]
    assert "intel_iommu=on" in words(switch_gpu(CARD, True, without.situation))
    made = scene(gpu=True, existing=16).where(CARD, iommu_group=None)
    assert isinstance(switch_gpu(CARD, False, made.situation), Plan)


def test_a_gpu_that_does_not_tell_its_instances_keeps_its_driver() -> None:
    one = scene(gpu=True).but(gpus={}, unasked={CARD: "nvidia-smi ended with status 9"})
    assert "nvidia-smi ended with status 9" in words(switch_gpu(CARD, True, one.situation))


def test_a_gpu_on_vfio_pci_is_with_a_vm() -> None:
    one = scene(gpu=True).where(CARD, driver="vfio-pci")
    assert f"laneway host release {CARD}" in words(switch_gpu(CARD, True, one.situation))


def test_what_a_new_binding_of_the_driver_would_destroy_forbids_it() -> None:
    one = scene(gpu=True, existing=16).but(
        holders={CARD: (USER,)},
        gpus={CARD: GpuModes(mig=True, instances=(GpuInstance(1, "1g.5gb", 19, 4, 1, 1),))},
    )
    decision = switch_gpu(CARD, False, one.situation)
    instance = "GPU instance 1g.5gb at 4 exists on it"
    assert decision == (DeviceHeld(str(CARD), (instance, USER.text)),)


def test_vgpus_forbid_it_and_are_named() -> None:
    one = scene(gpu=True, existing=16)
    configured = ConfiguredVgpu("nvidia-745", "NVIDIA A2-4Q", "u")
    vgpus = tuple(
        replace(vgpu, configured=configured) if vgpu.address == VFS[5] else vgpu
        for vgpu in one.situation.inventory.vgpus
    )
    one = one.but(inventory=replace(one.situation.inventory, vgpus=vgpus))
    decision = switch_gpu(CARD, False, one.situation)
    assert reasons(decision) == ["DeviceInUse"]
    assert f"{VFS[5]} is in use: vGPU NVIDIA A2-4Q is configured on it" in words(decision)


def test_only_vgpu_cards_are_switched() -> None:
    network_card = scene()
    assert switch_gpu(CARD, True, network_card.situation) == (VgpuUnsupported(str(CARD)),)
    without = scene(gpu=True).where(CARD, sriov_gpu=False)
    assert switch_gpu(CARD, True, without.situation) == (VgpuUnsupported(str(CARD)),)
    firmware = scene(gpu=True).where(CARD, sriov_gpu=False, total_vfs=None)
    assert switch_gpu(CARD, True, firmware.situation) == (NoSriov(str(CARD)),)
    vf = scene(gpu=True, existing=16)
    assert switch_gpu(VFS[0], True, vf.situation) == (VgpuUnsupported(str(VFS[0])),)
    gone = PciAddress.parse("0000:99:00.0")
    assert switch_gpu(gone, True, vf.situation) == (DeviceNotFound(str(gone)),)


@pytest.mark.parametrize(
    ("model", "driver", "refused"),
    [("mi210", "gim (MxGPU)", True), ("flex-170", "xe, or i915", False)],
)
def test_gpus_of_other_vendors_have_plain_functions_where_their_driver_makes_any(
    model: str, driver: str, refused: bool
) -> None:
    gpu = PciAddress.parse("0000:17:00.0")
    situation = glance(scan(build(parse_spec(model), "node1")))
    [no_vgpus] = refusals_of(switch_gpu(gpu, True, situation))
    assert driver in no_vgpus.words
    decision = set_vfs(gpu, 4, situation)
    assert [one.reason for one in refusals_of(decision)] == ["DriverMissing"] * refused
    assert all(driver in one.words for one in refusals_of(decision))
