"""The mode of a GPU: laws for every card and desired state, and the transitions one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.gpu.desired import DesiredMode, decide, effective, mode_of, pending
from laneway.core.gpu.modes import GpuInstance, GpuModes, Mode
from laneway.core.inventory import ConfiguredVgpu, Inventory
from laneway.core.plan import (
    DestroyComputeInstance,
    DestroyGpuInstance,
    Plan,
    Satisfied,
    SetMigMode,
    SetMixedSize,
    SwitchGpuVfs,
    undo,
)
from laneway.core.refusals import (
    DeviceHeld,
    DeviceNotFound,
    DriverMissing,
    GpuUnreadable,
    IommuDisabled,
    MigConfigurationEnabled,
    MigUnsupported,
    MixedSizeUnsupported,
    ModeInvalid,
    ModeWithoutVfs,
    UnmanagedMode,
    UnmanagedVfs,
)
from laneway.core.situation import Situation, glance
from laneway.core.sriov.vfs import emptied, vf_count
from support.cards import CARD, TYPES, USER, Scene, instances, scene, scenes, vf_addresses

MODES = st.sampled_from(["", *Mode])
DESIRED_STATES = st.builds(
    DesiredMode,
    address=st.just(CARD),
    enabled=st.booleans(),
    mode=MODES,
    mig_desired=st.booleans(),
    explicit=st.booleans(),
)
ON, OFF = SwitchGpuVfs(CARD, enabled=True, count=16), SwitchGpuVfs(CARD, enabled=False, count=16)
MIG_ON, MIG_OFF = SetMigMode(CARD, enabled=True), SetMigMode(CARD, enabled=False)
MIX, UNMIX = SetMixedSize(CARD, enabled=True), SetMixedSize(CARD, enabled=False)
INSTANCE = GpuInstance(0, "1g.5gb", 19, 2, 1, compute_instances=1)
GONE = (DestroyComputeInstance(CARD, 2), DestroyGpuInstance(CARD, "1g.5gb", 19, 2))


@st.composite
def cards(draw: st.DrawFn, *, free: bool = False) -> Scene:
    """Any GPU in any mode; `free`: nothing of it is carrying, in use, broken or needed."""
    base = draw(scenes(gpu=True, free=free))
    if free:
        base = base.but(inventory=emptied(CARD, base.situation).inventory)
    mig = draw(st.sampled_from([None, False, True]))
    made = draw(instances()) if mig else ()
    shared = bool(vf_count(base.function(CARD)))
    able = [None] if mig else [False, True] if shared else [False]
    # Whether a card without MIG can mix sizes shows only once it has functions.
    mixed = draw(st.sampled_from([*able, None] if mig is None and shared else able))
    return base.but(gpus={CARD: GpuModes(mig=mig, mixed_size=mixed, instances=made)})


def card(
    *, vfs: bool, mig: bool | None = False, mixed: bool | None = None, made: Any = ()
) -> Scene:
    """A GPU that is not in use."""
    if not mig and mixed is None:
        mixed = False
    modes = GpuModes(mig=mig, mixed_size=mixed, instances=made)
    return scene(gpu=True, existing=16 if vfs else 0).but(gpus={CARD: modes})


def desired(mode: str, *, vfs: bool | None = None, explicit: bool = True, mig: bool = False) -> Any:
    enabled = vfs if vfs is not None else Mode(mode).has_vfs
    return DesiredMode(CARD, enabled, mode, mig_desired=mig, explicit=explicit)


def steps(desired: DesiredMode, one: Scene) -> Any:
    decision = decide(desired, one.situation)
    assert isinstance(decision, Plan), decision
    return decision.steps


def refused(desired: DesiredMode, one: Scene) -> Any:
    decision = decide(desired, one.situation)
    assert isinstance(decision, tuple), decision
    return decision


def seen(situation: Situation) -> Inventory:
    """What a scan shows of a situation."""
    return replace(situation.inventory, modes=situation.gpus)


# ------------------------------------------------------------------------------------------- laws


@given(cards(free=True), DESIRED_STATES)
def test_every_plan_leads_to_the_desired_state_and_back(one: Scene, desired: DesiredMode) -> None:
    decision = decide(desired, one.situation)
    if not isinstance(decision, Plan):
        return

    after = one.kernel.run(decision.steps, one.situation)

    assert decide(desired, glance(seen(after))) == Satisfied()
    assert decide(desired, after) == Satisfied()
    gpu = Scene(CARD, after, one.kernel).function(CARD)
    assert bool(vf_count(gpu)) == desired.enabled
    wanted = effective(desired.mode, desired.enabled, desired.mig_desired)
    assert wanted in (None, mode_of(gpu, after.gpus[CARD]))
    back = [undone for step in reversed(decision.steps) if (undone := undo(step)) is not None]
    assert one.kernel.run(back, after) == one.situation


@given(cards(), DESIRED_STATES)
def test_what_a_vgpu_or_a_user_is_on_stays_as_it_is(one: Scene, desired: DesiredMode) -> None:
    situation = one.situation
    carried = any(vgpu.configured for vgpu in situation.inventory.vgpus)
    held = set(situation.holders) - {CARD}
    decision = decide(desired, situation)
    if carried or held:
        assert not isinstance(decision, Plan)
    if situation.holders and isinstance(decision, Plan):
        assert not {SwitchGpuVfs, SetMigMode} & set(map(type, decision.steps))


@given(cards(), DESIRED_STATES)
def test_without_an_explicit_desired_state_nothing_that_exists_goes(
    one: Scene, desired: DesiredMode
) -> None:
    decision = decide(replace(desired, explicit=False), one.situation)
    made = decision.steps if isinstance(decision, Plan) else ()
    assert not any(
        isinstance(step, DestroyGpuInstance | DestroyComputeInstance)
        or (isinstance(step, SwitchGpuVfs) and not step.enabled)
        for step in made
    )


@given(cards(free=True), DESIRED_STATES)
def test_a_card_that_is_not_in_use_gets_into_every_mode_it_has(
    one: Scene, desired: DesiredMode
) -> None:
    modes = one.situation.gpus[CARD]
    assume(not (desired.enabled and desired.mode in ("Passthrough", "MIG")))
    desired = replace(desired, explicit=True)

    decision = decide(desired, one.situation)

    if isinstance(decision, tuple):
        (refusal,) = decision
        wanted = effective(desired.mode, desired.enabled, desired.mig_desired)
        assert wanted is not None
        if wanted.has_mig:
            assert refusal == MigUnsupported(str(CARD))
            assert modes.mig is None
        elif modes.mig:
            assert refusal == MigConfigurationEnabled(str(CARD))
            assert desired.mig_desired
        else:
            assert refusal == MixedSizeUnsupported(str(CARD))
            assert modes.mixed_size is None


@given(cards(), st.booleans(), st.booleans())
def test_a_mode_that_is_left_open_forces_none(one: Scene, enabled: bool, explicit: bool) -> None:
    decision = decide(DesiredMode(CARD, enabled, "", explicit=explicit), one.situation)
    made = decision.steps if isinstance(decision, Plan) else ()
    assert not any(isinstance(step, SetMigMode) for step in made)
    assert MIX not in made


@given(cards(), DESIRED_STATES)
def test_what_a_scan_says_a_closer_look_says_too(one: Scene, desired: DesiredMode) -> None:
    said = decide(desired, glance(seen(one.situation)))
    if isinstance(said, Plan):
        assert decide(desired, one.situation) != Satisfied()
        assert pending(desired, seen(one.situation))
    else:
        assert not pending(desired, seen(one.situation))
        decision = decide(desired, one.situation)
        assert not isinstance(decision, Plan)
        if isinstance(said, tuple):
            assert isinstance(decision, tuple)


@given(st.text(max_size=80), st.booleans(), st.booleans())
def test_text_that_names_no_mode_is_refused_and_nothing_is_done(
    text: str, enabled: bool, explicit: bool
) -> None:
    assume(text not in ["", *Mode])
    desired = DesiredMode(CARD, enabled, text, explicit=explicit)
    (refusal,) = refused(desired, card(vfs=True))
    assert isinstance(refusal, ModeInvalid)
    assert len(refusal.words) < 400
    assert decide(desired, glance(seen(card(vfs=True).situation))) == (refusal,)


# ------------------------------------------------------------------------------ what it is to be


@pytest.mark.parametrize(
    ("mode", "enabled", "mig_desired", "wanted"),
    [
        ("", False, False, None),
        ("", True, False, None),
        ("", False, True, Mode.MIG),
        ("", True, True, Mode.MIG_BACKED),
        ("SameSize", True, True, Mode.SAME_SIZE),
        ("MixedSize", False, False, None),
        ("MIGBacked", False, True, None),
        ("MIG", False, False, Mode.MIG),
        ("Passthrough", False, True, Mode.PASSTHROUGH),
        ("mig", False, True, None),
    ],
)
def test_what_fields_and_configuration_request_together(
    mode: str, enabled: bool, mig_desired: bool, wanted: Mode | None
) -> None:
    assert effective(mode, enabled, mig_desired) is wanted


def test_the_mode_that_a_card_is_in() -> None:
    def found(one: Scene, modes: GpuModes | None) -> Mode | None:
        return mode_of(one.function(CARD), modes)

    bare, shared = card(vfs=False), card(vfs=True)
    assert found(bare, GpuModes(mig=False)) is Mode.PASSTHROUGH
    assert found(bare, GpuModes(mig=True)) is Mode.MIG
    assert found(shared, GpuModes(mig=True)) is Mode.MIG_BACKED
    assert found(shared, GpuModes(mixed_size=False)) is Mode.SAME_SIZE
    assert found(shared, GpuModes(mixed_size=True)) is Mode.MIXED_SIZE
    assert found(shared, None) is None
    assert found(bare.where(CARD, driver="vfio-pci"), None) is Mode.PASSTHROUGH


# --------------------------------------------------------------------------------- transitions


@pytest.mark.parametrize(
    ("one", "mode", "expected"),
    [
        (card(vfs=False), "SameSize", (ON,)),
        (card(vfs=False), "MixedSize", (ON, MIX)),
        (card(vfs=False), "MIG", (MIG_ON,)),
        (card(vfs=False), "MIGBacked", (MIG_ON, ON)),
        (card(vfs=True), "Passthrough", (OFF,)),
        (card(vfs=True), "MixedSize", (MIX,)),
        (card(vfs=True), "MIG", (OFF, MIG_ON)),
        (card(vfs=True), "MIGBacked", (OFF, MIG_ON, ON)),
        (card(vfs=True, mixed=True), "SameSize", (UNMIX,)),
        (card(vfs=True, mixed=True), "Passthrough", (UNMIX, OFF)),
        (card(vfs=True, mixed=True), "MIGBacked", (UNMIX, OFF, MIG_ON, ON)),
        (card(vfs=False, mig=True, made=(INSTANCE,)), "Passthrough", (*GONE, MIG_OFF)),
        (card(vfs=False, mig=True, made=(INSTANCE,)), "MIGBacked", (*GONE, ON)),
        (card(vfs=False, mig=True), "MixedSize", (MIG_OFF, ON, MIX)),
        (card(vfs=True, mig=True, made=(INSTANCE,)), "MIG", (*GONE, OFF)),
        (card(vfs=True, mig=True, made=(INSTANCE,)), "SameSize", (*GONE, OFF, MIG_OFF, ON)),
        (card(vfs=True, mig=True), "MixedSize", (OFF, MIG_OFF, ON, MIX)),
    ],
)
def test_every_transition_in_the_only_order_that_works(
    one: Scene, mode: str, expected: tuple[Any, ...]
) -> None:
    assert steps(desired(mode), one) == expected


def test_what_a_boot_took_comes_back_without_being_requested_again() -> None:
    lost = desired("MixedSize", explicit=False)
    assert steps(lost, card(vfs=False)) == (ON, MIX)
    assert steps(lost, card(vfs=True)) == (MIX,)
    assert steps(desired("MIGBacked", explicit=False), card(vfs=False, mig=True)) == (ON,)


def test_a_mode_for_later_changes_nothing_now() -> None:
    later = desired("MIGBacked", vfs=False)
    assert decide(later, card(vfs=False).situation) == Satisfied()
    assert steps(later, card(vfs=True)) == (OFF,)


def test_a_mode_that_was_not_chosen_stays_as_it_is() -> None:
    open_on, open_off = desired("", vfs=True), desired("", vfs=False)
    assert steps(open_on, card(vfs=False, mig=True)) == (ON,)
    assert decide(open_on, card(vfs=True, mixed=True).situation) == Satisfied()
    assert decide(open_off, card(vfs=False, mig=True).situation) == Satisfied()
    assert steps(open_off, card(vfs=True, mig=True, made=(INSTANCE,))) == (*GONE, OFF)


def test_a_configuration_of_gpu_instances_chooses_the_mode_that_is_left_open() -> None:
    assert steps(desired("", vfs=True, mig=True), card(vfs=False)) == (MIG_ON, ON)
    assert steps(desired("", vfs=False, mig=True), card(vfs=False)) == (MIG_ON,)
    chosen = desired("MixedSize", mig=True)
    assert steps(chosen, card(vfs=True)) == (MIX,)
    assert refused(chosen, card(vfs=True, mig=True)) == (MigConfigurationEnabled(str(CARD)),)


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("mode", ["Passthrough", "MIG"])
@pytest.mark.parametrize("vfs", [False, True])
def test_functions_and_a_mode_without_them_exclude_each_other(mode: str, vfs: bool) -> None:
    (refusal,) = refused(desired(mode, vfs=True), card(vfs=vfs))
    assert refusal == ModeWithoutVfs(str(CARD), mode)
    assert mode in refusal.words


def test_what_the_card_cannot() -> None:
    plain = card(vfs=True, mig=None, mixed=None)
    plain = plain.but(gpus={CARD: GpuModes()})
    assert refused(desired("MIGBacked"), plain) == (MigUnsupported(str(CARD)),)
    assert refused(desired("MixedSize"), plain) == (MixedSizeUnsupported(str(CARD)),)
    assert decide(desired("SameSize"), plain.situation) == Satisfied()


def test_functions_that_were_not_requested_here_stay() -> None:
    for mode in ("", "Passthrough", "MIG"):
        (refusal,) = refused(desired(mode, vfs=False, explicit=False), card(vfs=True))
        assert refusal == UnmanagedVfs(str(CARD), 16)


def test_a_mode_that_was_not_requested_here_stays_where_something_would_go_with_it() -> None:
    for one, mode, found in (
        (card(vfs=True), "MIGBacked", "SameSize"),
        (card(vfs=True, mig=True), "SameSize", "MIGBacked"),
        (card(vfs=False, mig=True, made=(INSTANCE,)), "MIGBacked", "MIG"),
        (card(vfs=False, mig=True, made=(INSTANCE,)), "Passthrough", "MIG"),
    ):
        answer = refused(desired(mode, explicit=False), one)
        assert answer == (UnmanagedMode(str(CARD), mode, found),)
        assert mode in answer[0].words
        assert found in answer[0].words
    with_instances = card(vfs=False, mig=True, made=(INSTANCE,))
    adopted = refused(desired("", vfs=True, explicit=False), with_instances)
    assert adopted == (UnmanagedMode(str(CARD), "MIGBacked", "MIG"),)


def test_functions_that_a_boot_left_stand_in_the_way_of_no_mode_that_has_functions() -> None:
    booted = replace(desired("MIGBacked", explicit=False), as_booted=True)
    assert steps(booted, card(vfs=True)) == steps(desired("MIGBacked"), card(vfs=True))
    whole = replace(desired("MIG", explicit=False), as_booted=True)
    assert refused(whole, card(vfs=True)) == (UnmanagedVfs(str(CARD), 16),)
    back = replace(desired("SameSize", explicit=False), as_booted=True)
    (refusal,) = refused(back, card(vfs=True, mig=True, made=(INSTANCE,)))
    assert isinstance(refusal, UnmanagedMode)


@pytest.mark.parametrize("mode", ["MixedSize", "MIGBacked", "MIG", "Passthrough"])
def test_a_vgpu_forbids_every_change_and_is_named_once(mode: str) -> None:
    one = card(vfs=True)
    kind = TYPES[0]
    vgpus = list(one.situation.inventory.vgpus)
    vgpus[3] = replace(vgpus[3], configured=ConfiguredVgpu(kind.id, kind.name, "u"))
    inventory = replace(one.situation.inventory, vgpus=tuple(vgpus))

    (refusal,) = refused(desired(mode), one.but(inventory=inventory))

    assert isinstance(refusal, DeviceHeld)
    assert refusal.device == str(vf_addresses(4)[3])
    assert kind.name in refusal.words


@pytest.mark.parametrize("mode", ["MIGBacked", "MIG", "Passthrough"])
def test_a_process_on_the_card_forbids_a_new_binding_or_mode(mode: str) -> None:
    held = {"holders": {CARD: (USER,)}}
    (refusal,) = refused(desired(mode), card(vfs=True).but(**held))
    assert USER.text in refusal.words
    (refusal,) = refused(desired("MIG"), card(vfs=False).but(**held))
    assert USER.text in refusal.words


def test_a_card_that_does_not_answer_or_has_another_driver_is_left_alone() -> None:
    silent = card(vfs=False).but(gpus={}, unasked={CARD: "nvidia-smi ended with status 9"})
    assert refused(desired("MIGBacked"), silent) == (
        GpuUnreadable(str(CARD), "nvidia-smi ended with status 9"),
    )
    answer = refused(desired("MIG"), card(vfs=False).where(CARD, driver="").but(gpus={}))
    assert [type(one) for one in answer] == [DriverMissing]
    gone = decide(desired("MIG"), glance(Inventory()))
    assert gone == (DeviceNotFound(str(CARD)),)


def test_everything_that_is_wrong_is_reported_together() -> None:
    one = card(vfs=False).where(CARD, iommu_group=None).but(holders={CARD: (USER,)})
    answer = refused(desired("MIGBacked"), one)
    assert {type(refusal) for refusal in answer} == {IommuDisabled, DeviceHeld}
