"""A GPU's whole desired state: the order of steps, what stays, and everything that is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.decision import refusals_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Framework
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    CreateMdev,
    Plan,
    RemoveMdev,
    Satisfied,
    SetMixedSize,
    SetVgpuParameters,
    SetVgpuType,
    SwitchGpuVfs,
)
from laneway.core.situation import Situation
from laneway.core.words import describe
from support.looks import (
    A2_NAMES,
    GPU,
    L40S,
    VFS,
    desired,
    kinds,
    pf,
    reasons,
    situation,
    steps,
)

# ------------------------------------------------------------------------------------- time-sliced


@pytest.mark.parametrize("framework", ["mdev", "vendor-vfio"])
def test_vgpus_go_to_the_first_functions_in_numeric_order(framework: Framework) -> None:
    look = situation(framework=framework)

    plan = steps(plan_layout(desired(("NVIDIA A2-4Q", 2), ("NVIDIA A2-4C", 1)), look))

    assert [(step.function, step.profile) for step in plan] == [
        (VFS[0], "NVIDIA A2-4C"),
        (VFS[1], "NVIDIA A2-4Q"),
        (VFS[2], "NVIDIA A2-4Q"),
    ]
    kind = CreateMdev if framework == "mdev" else SetVgpuType
    assert {type(step) for step in plan} == {kind}
    assert plan[1].type_id == kinds("NVIDIA A2-4Q", framework=framework)[0].id


def test_what_is_as_desired_stays_where_it_is() -> None:
    look = situation(carried={3: "NVIDIA A2-4Q", 5: "NVIDIA A2-4C"})

    plan = steps(plan_layout(desired(("NVIDIA A2-4Q", 2)), look))

    assert [(type(step), step.function) for step in plan] == [
        (RemoveMdev, VFS[5]),
        (CreateMdev, VFS[0]),
    ]
    both = desired(("NVIDIA A2-4Q", 1), ("NVIDIA A2-4C", 1))
    assert plan_layout(both, look) == Satisfied()


def test_of_too_many_those_in_use_stay() -> None:
    look = situation(carried=dict.fromkeys(range(4), "NVIDIA A2-4Q"), held=(2,))

    plan = steps(plan_layout(desired(("NVIDIA A2-4Q", 2)), look))

    assert [(type(step), step.function) for step in plan] == [
        (RemoveMdev, VFS[1]),
        (RemoveMdev, VFS[3]),
    ]


def test_a_vgpu_in_use_is_never_taken_away() -> None:
    look = situation(carried={0: "NVIDIA A2-4Q", 1: "NVIDIA A2-4Q"}, held=(0,))

    assert reasons(plan_layout(desired(("NVIDIA A2-8Q", 1)), look)) == [
        "DeviceInUse",
    ]
    assert reasons(plan_layout(desired(), look)) == ["DeviceInUse"]


def test_another_size_replaces_what_is_not_in_use() -> None:
    look = situation(carried={0: "NVIDIA A2-4Q", 1: "NVIDIA A2-4Q"})

    plan = steps(plan_layout(desired(("NVIDIA A2-8Q", 2)), look))

    assert [type(step) for step in plan] == [RemoveMdev, RemoveMdev, CreateMdev, CreateMdev]


def test_a_desired_state_for_nothing_empties_the_card_and_leaves_its_functions() -> None:
    look = situation(carried={0: "NVIDIA A2-4Q"})
    assert [type(step) for step in steps(plan_layout(desired(), look))] == [RemoveMdev]
    assert plan_layout(desired(), situation()) == Satisfied()


def test_a_profile_that_a_full_card_does_not_list_is_looked_up_at_the_write() -> None:
    look = situation(
        pf(L40S), {0: "NVIDIA L40S-24Q", 1: "NVIDIA L40S-24Q"}, names=(), framework="vendor-vfio"
    )

    plan = steps(plan_layout(desired(("NVIDIA L40S-48Q", 1)), look))

    assert [step.type_id for step in plan] == ["0", "0", ""]


def test_parameters_come_last_and_only_where_they_differ() -> None:
    look = situation(
        carried={0: "NVIDIA A2-4Q", 1: "NVIDIA A2-4Q"},
        parameters={VFS[0]: "frame_rate_limiter=0 ,disable_vnc=1", VFS[1]: ""},
    )
    asked = desired(("NVIDIA A2-4Q", 3), parameters="disable_vnc=1,frame_rate_limiter=0")

    plan = steps(plan_layout(asked, look))

    assert [type(step) for step in plan] == [CreateMdev, SetVgpuParameters, SetVgpuParameters]
    assert [step.function for step in plan[1:]] == [VFS[1], VFS[2]]
    assert plan[2].uuid == plan[0].uuid


def test_parameters_of_a_vgpu_in_use_cannot_change() -> None:
    look = situation(carried={0: "NVIDIA A2-4Q"}, held=(0,))
    asked = desired(("NVIDIA A2-4Q", 1), parameters="frame_rate_limiter=0")
    assert reasons(plan_layout(asked, look)) == ["DeviceInUse"]


# -------------------------------------------------------------------------------------- mixed size

L40S_NAMES = tuple(f"NVIDIA L40S-{size}Q" for size in (1, 2, 4, 8, 12, 16, 24, 48))


def l40s(carried: dict[int, str] | None = None, *, mixed: bool | None, **more: object) -> Situation:
    return situation(
        pf(L40S),
        carried,
        names=L40S_NAMES,
        framework="vendor-vfio",
        modes=GpuModes(mixed_size=mixed),
        **more,
    )


def test_mixed_sizes_are_allowed_before_the_first_vgpu_and_made_largest_first() -> None:
    asked = desired(
        ("NVIDIA L40S-1Q", 1), ("NVIDIA L40S-12Q", 1), ("NVIDIA L40S-24Q", 1), mixed_size=True
    )

    plan = steps(plan_layout(asked, l40s({4: "NVIDIA L40S-24Q"}, mixed=False)))

    assert [describe(step) for step in plan] == [
        "remove L40S-24Q from 0000:08:01.4",
        "allow vGPUs of mixed sizes on 0000:08:00.0",
        *(
            f"configure L40S-{size} on 0000:08:01.{vf}".replace(" on", f" (type {kind}) on")
            for vf, size, kind in (
                (index, one.rpartition("-")[2], kinds(one, framework="vendor-vfio")[0].id)
                for index, one in enumerate(
                    ("NVIDIA L40S-24Q", "NVIDIA L40S-12Q", "NVIDIA L40S-1Q")
                )
            )
        ),
    ]


def test_of_too_many_those_stay_that_leave_a_place_for_a_large_one() -> None:
    asked = desired(("NVIDIA L40S-12Q", 2), mixed_size=True)
    carried = dict.fromkeys(range(4), "NVIDIA L40S-12Q")
    places = {function: (12 * function, None) for function in carried}

    def removed(**more: object) -> list[str]:
        plan = steps(plan_layout(asked, l40s(carried, mixed=True, places=places, **more)))
        return [describe(step).rpartition(".")[2] for step in plan]

    assert removed(held=(2,)) == ["0", "1"]
    assert removed(held=(1,)) == ["2", "3"]


def test_a_vgpu_that_sits_badly_moves_when_it_is_not_in_use() -> None:
    asked = desired(("NVIDIA L40S-16Q", 2), ("NVIDIA L40S-1Q", 1), mixed_size=True)
    carried, places = {0: "NVIDIA L40S-1Q"}, {0: (0, None)}

    plan = steps(plan_layout(asked, l40s(carried, mixed=True, places=places)))
    held = plan_layout(asked, l40s(carried, mixed=True, places=places, held=(0,)))

    assert [step.profile for step in plan] == [
        "NVIDIA L40S-1Q",
        "NVIDIA L40S-16Q",
        "NVIDIA L40S-16Q",
        "NVIDIA L40S-1Q",
    ]
    assert reasons(held) == ["LayoutDoesNotFit"]


def test_the_mode_goes_with_the_desired_state_for_it() -> None:
    plan = steps(plan_layout(desired(("NVIDIA L40S-8Q", 6)), l40s(mixed=True)))
    assert plan[0] == SetMixedSize(GPU, enabled=False)
    assert len(plan) == 7


def test_a_mode_cannot_change_under_a_vgpu_in_use() -> None:
    look = l40s({0: "NVIDIA L40S-8Q"}, mixed=False, held=(0,))
    asked = desired(("NVIDIA L40S-8Q", 1), mixed_size=True)
    assert reasons(plan_layout(asked, look)) == ["DeviceInUse"]


# ------------------------------------------------------------------------------- functions are off


def test_without_functions_the_first_plan_makes_them_and_tells_the_rest() -> None:
    asked = desired(("NVIDIA A2-4Q", 2), parameters="frame_rate_limiter=0")

    plan = plan_layout(asked, situation(pf(vfs=0)))

    assert plan == Plan(
        (SwitchGpuVfs(GPU, enabled=True, count=16),),
        (
            "configure A2-4Q=2",
            "set the vGPU parameters of all to frame_rate_limiter=0",
        ),
    )


def test_without_functions_the_catalogue_refuses_what_can_never_fit() -> None:
    off = situation(pf(vfs=0))
    assert reasons(plan_layout(desired(("NVIDIA A2-4Q", 5)), off)) == ["LayoutDoesNotFit"]
    assert reasons(plan_layout(desired(("NVIDIA A2-5Q", 1)), off)) == ["ProfileNotOffered"]
    assert reasons(plan_layout(desired(("NVIDIA A2-1Q", 17)), off)) == [
        "LayoutDoesNotFit",
        "LayoutDoesNotFit",
    ]
    both = desired(("NVIDIA A2-4Q", 1), ("NVIDIA A2-8Q", 1))
    assert reasons(plan_layout(both, off)) == ["SizesMixed"]


def test_boards_that_share_an_id_are_distinguished_by_their_subsystem() -> None:
    off = situation(pf(vfs=0, subsystem_device="157e"))
    found = plan_layout(desired(("NVIDIA A16-4Q", 1)), off)
    assert isinstance(found, tuple)
    assert reasons(found) == ["ProfileNotOffered"]
    assert "A2-4Q" in found[0].words
    assert steps(plan_layout(desired(("NVIDIA A2-4Q", 1)), off))


def test_an_unknown_board_gets_its_functions_first() -> None:
    plan = plan_layout(desired(("NVIDIA B99-8Q", 2)), situation(pf("2fff", vfs=0)))
    assert isinstance(plan, Plan)
    assert plan.then == ("configure B99-8Q=2",)


def test_room_on_an_unknown_board_is_for_its_driver_to_judge() -> None:
    look = situation(
        pf("2fff"), {0: "NVIDIA B99-8Q"}, names=("NVIDIA B99-8Q",), framework="vendor-vfio"
    )
    assert len(steps(plan_layout(desired(("NVIDIA B99-8Q", 3)), look))) == 2

    names = ("NVIDIA B99-8Q", "NVIDIA B99-16Q")
    complete = situation(pf("2fff"), names=names, framework="vendor-vfio")
    assert reasons(plan_layout(desired(("NVIDIA B99-8Q", 3)), complete)) == ["LayoutDoesNotFit"]


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (pf(vendor="8086"), ["VgpuUnsupported"]),
        (pf(class_code="020000"), ["VgpuUnsupported"]),
        (pf(physfn=VFS[1]), ["VgpuUnsupported"]),
        (pf(total_vfs=None), ["NoSriov"]),
        (pf(sriov_gpu=False), ["VgpuUnsupported"]),
        (pf(driver="vfio-pci", vfs=0), ["DriverMissing"]),
        (pf(driver="nouveau", vfs=0), ["DriverMissing"]),
        (pf(driver="", vfs=0), ["DriverMissing"]),
    ],
)
def test_cards_that_cannot_be_configured(gpu: PciFunction, expected: list[str]) -> None:
    assert reasons(plan_layout(desired(("NVIDIA A2-4Q", 1)), situation(gpu))) == expected


def test_the_remedy_for_a_gpu_on_vfio_pci_is_to_give_it_back() -> None:
    found = plan_layout(desired(("NVIDIA A2-4Q", 1)), situation(pf(driver="vfio-pci", vfs=0)))
    assert isinstance(found, tuple)
    assert "laneway host release 0000:08:00.0" in found[0].words


def test_a_card_that_is_not_there() -> None:
    elsewhere = DesiredGpu(PciAddress.parse("0000:99:00.0"), ())
    assert reasons(plan_layout(elsewhere, situation())) == ["DeviceNotFound"]


def test_programs_that_are_missing_or_silent() -> None:
    asked = desired(("NVIDIA A2-4Q", 1))
    assert reasons(plan_layout(asked, situation(pf(vfs=0), sriov_manage=False))) == ["ToolMissing"]
    silent = plan_layout(asked, situation(gpus={}, unasked={GPU: "exit code 9: no driver"}))
    assert reasons(silent) == ["GpuUnreadable"]
    assert isinstance(silent, tuple)
    assert "exit code 9" in silent[0].words


def test_functions_that_no_vgpu_driver_serves() -> None:
    look = situation()
    bare = msgspec.structs.replace(
        look, inventory=msgspec.structs.replace(look.inventory, vgpus=())
    )
    assert reasons(plan_layout(desired(("NVIDIA A2-4Q", 1)), bare)) == ["DriverMissing"]


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    asked = DesiredGpu(
        GPU,
        (("NVIDIA A2-4Q", 0), ("GRID A100-1-5C", -1), ("no profile", 2)),
        mixed_size=True,
        parameters="a b\n",
    )
    found = reasons(plan_layout(asked, situation(modes=GpuModes())))
    assert found == [
        "CountInvalid",
        "CountInvalid",
        "ParametersInvalid",
        "ModeConflict",
        "ProfileNotOffered",
        "ProfileNotOffered",
        "MigUnsupported",
        "MixedSizeUnsupported",
    ]


def test_sizes_mix_only_where_that_is_requested_and_possible() -> None:
    both = (("NVIDIA A2-4Q", 1), ("NVIDIA A2-8Q", 1))
    assert reasons(plan_layout(desired(*both), situation())) == ["SizesMixed"]
    unable = situation(modes=GpuModes())
    assert reasons(plan_layout(desired(*both, mixed_size=True), unable)) == ["MixedSizeUnsupported"]
    assert steps(plan_layout(desired(*both, mixed_size=True), situation()))


def test_more_than_fits_tells_how_many_would_and_of_others_where_there_are_any() -> None:
    [alone] = refusals_of(plan_layout(desired(("NVIDIA A2-4Q", 5)), situation()))
    assert alone.words == (
        "A2-4Q=5 does not fit on 0000:08:00.0: at most 4 fit. Request A2-4Q=4, or a smaller "
        "profile."
    )
    carried = situation(carried={0: "NVIDIA A2-4Q", 3: "NVIDIA A2-4Q"})
    assert plan_layout(desired(("NVIDIA A2-4Q", 5)), carried) == (alone,)
    two = desired(("NVIDIA A2-4Q", 3), ("NVIDIA A2-4C", 2))
    [beside] = refusals_of(plan_layout(two, situation()))
    assert "together with the other requested vGPUs" in beside.words
    assert "or fewer of the others" in beside.words


def test_every_function_can_carry_a_vgpu_and_no_more() -> None:
    assert len(steps(plan_layout(desired(("NVIDIA A2-1B", 16)), situation()))) == 16
    assert "LayoutDoesNotFit" in reasons(plan_layout(desired(("NVIDIA A2-1B", 17)), situation()))
    eight = situation(pf(vfs=8))
    assert "LayoutDoesNotFit" in reasons(plan_layout(desired(("NVIDIA A2-1B", 9)), eight))
    assert "LayoutDoesNotFit" in reasons(
        plan_layout(desired(("NVIDIA A2-1B", 17)), situation(pf(vfs=0)))
    )


def test_a_made_up_profile_of_a_card_that_lists_all_it_can() -> None:
    for name in ("NVIDIA A2-3Q", "NVIDIA A40-4Q", "", "A2-4Q"):
        assert reasons(plan_layout(desired((name, 1)), situation())) == ["ProfileNotOffered"]


def test_nothing_is_removed_when_users_cannot_be_seen() -> None:
    visibility_error = situation(
        carried={0: "NVIDIA A2-4Q"}, visibility_error="no processes are visible"
    )
    assert reasons(plan_layout(desired(), visibility_error)) == ["HoldersUnknown"]
    assert steps(plan_layout(desired(("NVIDIA A2-4Q", 2)), visibility_error))


# -------------------------------------------------------------------------------------------- laws

names_of_a2 = st.sampled_from([*A2_NAMES, "NVIDIA A2-3Q", "GRID A100-1-5C"])


@given(
    st.dictionaries(
        st.integers(0, 15), st.sampled_from(["NVIDIA A2-4Q", "NVIDIA A2-4C"]), max_size=4
    ),
    st.lists(st.tuples(names_of_a2, st.integers(-1, 6)), max_size=3),
    st.sets(st.integers(0, 15)),
    st.booleans(),
)
def test_no_plan_touches_what_is_in_use_and_every_plan_is_what_was_desired(
    carried: dict[int, str], vgpus: list[tuple[str, int]], held: set[int], mixed: bool
) -> None:
    busy = tuple(held & set(carried))
    look = situation(carried=carried, held=busy)

    decision = plan_layout(desired(*vgpus, mixed_size=mixed), look)

    if isinstance(decision, tuple):
        assert decision
        return
    plan = decision.steps if isinstance(decision, Plan) else ()
    assert not {VFS[index] for index in busy} & {step.function for step in plan}
    there = {VFS[index]: name for index, name in carried.items()}
    for step in plan:
        if isinstance(step, RemoveMdev):
            del there[step.function]
        elif isinstance(step, CreateMdev):
            assert step.function not in there
            there[step.function] = step.profile
    wanted: dict[str, int] = {}
    for name, count in vgpus:
        wanted[name] = wanted.get(name, 0) + count
    assert {name: list(there.values()).count(name) for name in there.values()} == wanted
