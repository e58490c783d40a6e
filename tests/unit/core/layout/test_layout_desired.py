"""Which GPUs a layout means, whose a GPU is, and what makes a spec impossible on any card."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes, Mode
from laneway.core.layout.desired import (
    Claimant,
    DesiredLayout,
    Selection,
    desired_of,
    owner,
    plan_desired,
    selects_gpu,
    selects_node,
)
from laneway.core.phrases import short_name
from laneway.core.plan import Satisfied, SetMigMode, SwitchGpuVfs
from laneway.core.words import describe
from support.looks import A100, GPU, pf, reasons, situation, steps

Q4, Q8, MIG_5C = "NVIDIA A2-4Q", "NVIDIA A2-8Q", "GRID A100-1-5C"


# ------------------------------------------------------------------------------------ selection


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), True),
        (Selection(nodes=frozenset({"n1", "n2"})), True),
        (Selection(nodes=frozenset({"n2"})), False),
        (Selection(labels={"gpu": "a2"}), True),
        (Selection(labels={"gpu": "a2", "zone": "b"}), False),
        (Selection(labels={"gpu": "a16"}), False),
        (Selection(labels={"gpu": "a2"}, nodes=frozenset({"n2"})), False),
    ],
)
def test_a_node_is_meant_by_all_of_its_labels_and_its_name(
    selection: Selection, expected: bool
) -> None:
    assert selects_node(selection, "n1", {"gpu": "a2", "zone": "a"}) is expected


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), True),
        (Selection(names=frozenset({"n1-08"})), True),
        (Selection(names=frozenset({"n1-09"})), False),
        (Selection(device_ids=frozenset({"25b6"})), True),
        (Selection(device_ids=frozenset({"26b9"})), False),
        (Selection(names=frozenset({"n1-08"}), device_ids=frozenset({"26b9"})), False),
    ],
)
def test_a_gpu_is_meant_by_its_name_and_its_device_id(selection: Selection, expected: bool) -> None:
    assert selects_gpu(selection, "n1-08", "25b6") is expected


def test_the_oldest_layout_has_a_gpu_and_of_two_as_old_the_first_by_name() -> None:
    older = Claimant("2026-11-21T10:00:00Z", "z")
    younger = Claimant("2026-11-21T10:00:01Z", "a")
    assert owner([younger, older]) == "z"
    assert owner([older, Claimant(older.created, "b")]) == "b"
    assert owner([]) == ""


# ------------------------------------------------------------------------------------ the desired
# state


def good(mode: str, *vgpus: tuple[str, int]) -> DesiredLayout:
    desired = desired_of(GPU, mode, vgpus)
    assert isinstance(desired, DesiredLayout), desired
    return desired


def test_profiles_imply_the_mode_where_none_is_named() -> None:
    assert good("", (Q4, 2)).mode is Mode.SAME_SIZE
    assert good("", (MIG_5C, 2)).mode is Mode.MIG_BACKED
    assert good("").mode is None
    assert good("MixedSize", (Q4, 2)).mode is Mode.MIXED_SIZE


def test_a_profile_that_is_named_twice_is_requested_in_sum() -> None:
    assert good("", (Q4, 1), (Q8, 1), (Q4, 2)).wanted == {Q4: 3, Q8: 1}


@pytest.mark.parametrize(
    ("mode", "vgpus", "expected"),
    [
        ("SameSize", [(MIG_5C, 1)], ["ModeConflict"]),
        ("MixedSize", [(MIG_5C, 1), (Q4, 1)], ["ModeConflict"]),
        ("MIGBacked", [(Q4, 1)], ["ModeConflict"]),
        ("MIG", [(MIG_5C, 1)], ["ModeConflict"]),
        ("Passthrough", [(Q4, 1)], ["ModeConflict"]),
        ("Passthrough", [("what?", 1)], ["ModeConflict"]),
        ("sliced", [], ["ModeInvalid"]),
        ("", [(Q4, 0), (Q8, -3)], ["CountInvalid", "CountInvalid"]),
    ],
)
def test_what_contradicts_itself_is_refused(
    mode: str, vgpus: list[tuple[str, int]], expected: list[str]
) -> None:
    found = desired_of(GPU, mode, vgpus)
    assert reasons(found) == expected
    assert isinstance(found, tuple)
    if expected == ["ModeConflict"]:
        assert mode in found[0].words
        assert short_name(vgpus[0][0]) in found[0].words


# ------------------------------------------------------------------------------------ the plan


def mig_modes(*, on: bool, instances: tuple[GpuInstance, ...] = ()) -> GpuModes:
    profiles = (GpuInstanceProfile("1g.5gb", 19, 7, (0, 1, 2, 3, 4, 5, 6), 1),) if on else ()
    return GpuModes(mig=on, profiles=profiles, instances=instances)


def a100(**more: Any) -> Any:
    return situation(pf(A100, **more.pop("gpu", {})), names=("GRID A100-4C",), **more)


def test_passthrough_takes_vgpus_functions_and_mig_mode_away() -> None:
    look = a100(carried={0: "GRID A100-4C"}, modes=mig_modes(on=False))
    words = [describe(step) for step in steps(plan_desired(good("Passthrough"), look))]
    assert [word.split()[0] for word in words] == ["remove", "disable"]

    on = a100(gpu={"vfs": 0}, modes=mig_modes(on=True))
    assert steps(plan_desired(good("Passthrough"), on)) == [SetMigMode(GPU, enabled=False)]
    assert plan_desired(good("Passthrough"), a100(gpu={"vfs": 0})) == Satisfied()


def test_mig_without_vgpus_keeps_the_instances_that_are_there() -> None:
    one = GpuInstance(1, "1g.5gb", 19, 0, 1, 1)
    there = a100(gpu={"vfs": 0}, modes=mig_modes(on=True, instances=(one,)))
    assert plan_desired(good("MIG"), there) == Satisfied()
    off = a100(modes=mig_modes(on=False))
    assert steps(plan_desired(good("MIG"), off)) == [
        SwitchGpuVfs(GPU, enabled=False, count=16),
        SetMigMode(GPU, enabled=True),
    ]
    assert reasons(plan_desired(good("MIG"), situation())) == ["MigUnsupported"]


def test_a_mode_is_left_for_no_vgpus_at_all_only_when_it_is_named() -> None:
    on = a100(modes=mig_modes(on=True))
    assert plan_desired(good(""), on) == Satisfied()
    assert plan_desired(good("MIGBacked"), on) == Satisfied()
    assert SetMigMode(GPU, enabled=False) in steps(plan_desired(good("SameSize"), on))
    off = a100(modes=mig_modes(on=False))
    assert SetMigMode(GPU, enabled=True) in steps(plan_desired(good("MIGBacked"), off))
    assert reasons(plan_desired(good("MIGBacked"), situation())) == ["MigUnsupported"]


def test_a_gpu_in_use_is_left_in_its_mode() -> None:
    held = a100(carried={3: "GRID A100-4C"}, held=(3,), modes=mig_modes(on=False))
    for mode in ("Passthrough", "MIG"):
        assert "DeviceInUse" in reasons(plan_desired(good(mode), held))
