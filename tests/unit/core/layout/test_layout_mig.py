"""A GPU's whole spec where it is for MIG-backed vGPUs: the order of steps, and what stays."""

from __future__ import annotations

import msgspec

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.layout.plan import plan_layout
from laneway.core.mig.profiles import expected_profiles
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    Plan,
    Satisfied,
    SetMigMode,
    SetMixedSize,
    SetVgpuType,
    SwitchGpuVfs,
)
from laneway.core.situation import Holder, Situation
from support.looks import (
    A100,
    DC,
    GPU,
    RTX_PRO,
    VFS,
    desired,
    pf,
    reasons,
    situation,
    steps,
)


def with_ids(device: str) -> tuple[GpuInstanceProfile, ...]:
    return tuple(
        msgspec.structs.replace(one, id=number)
        for number, one in enumerate(expected_profiles(device), 14)
    )


def instance(device: str, number: int, name: str, start: int, computes: int = 1) -> GpuInstance:
    found = next(one for one in with_ids(device) if one.name == name)
    return GpuInstance(number, name, found.id, start, found.size, computes)


def rtx(carried: dict[int, str] | None = None, *there: GpuInstance, **more: object) -> Situation:
    modes = GpuModes(mig=True, profiles=with_ids(RTX_PRO), instances=there)
    facts = {"names": (), "framework": "vendor-vfio", "modes": modes, **more}
    return situation(pf(RTX_PRO), carried, **facts)


def test_mig_backed_profiles_switch_the_card_to_mig_in_the_drivers_order() -> None:
    look = situation(
        pf(RTX_PRO),
        {0: f"{DC}-8Q"},
        names=(f"{DC}-8Q",),
        framework="vendor-vfio",
        modes=GpuModes(mig=False, mixed_size=True, profiles=with_ids(RTX_PRO)),
    )

    plan = plan_layout(desired((f"{DC}-1-2Q", 13)), look)

    assert [type(step) for step in steps(plan)] == [
        SetVgpuType,
        SetMixedSize,
        SwitchGpuVfs,
        SetMigMode,
        SwitchGpuVfs,
    ]
    assert isinstance(plan, Plan)
    assert plan.steps[2:] == (
        SwitchGpuVfs(GPU, enabled=False, count=16),
        SetMigMode(GPU, enabled=True),
        SwitchGpuVfs(GPU, enabled=True, count=16),
    )
    assert plan.then == ("create 2 x GPU instance 1g.24gb+gfx", "configure DC-1-2Q=13")


def test_mig_mode_comes_before_the_functions() -> None:
    look = situation(pf(A100, vfs=0), modes=GpuModes(mig=False, mixed_size=False))
    plan = steps(plan_layout(desired(("GRID A100-1-5C", 2)), look))
    assert plan == [SetMigMode(GPU, enabled=True), SwitchGpuVfs(GPU, enabled=True, count=16)]


def test_time_sliced_profiles_take_the_card_out_of_mig_mode() -> None:
    plan = steps(
        plan_layout(desired((f"{DC}-8Q", 1)), rtx(None, instance(RTX_PRO, 3, "1g.24gb+gfx", 0)))
    )
    assert [type(step) for step in plan] == [
        DestroyComputeInstance,
        DestroyGpuInstance,
        SwitchGpuVfs,
        SetMigMode,
        SwitchGpuVfs,
    ]


def test_a_desired_state_for_nothing_leaves_the_mode_of_the_card() -> None:
    assert plan_layout(desired(), rtx()) == Satisfied()


def test_instances_come_before_the_vgpus_in_them() -> None:
    plan = steps(plan_layout(desired((f"{DC}-1-2Q", 2), (f"{DC}-1-8Q", 1)), rtx()))

    assert plan[:4] == [
        CreateGpuInstance(GPU, "1g.24gb+gfx", with_ids(RTX_PRO)[0].id, 0),
        CreateComputeInstance(GPU, 0),
        CreateGpuInstance(GPU, "1g.24gb+gfx", with_ids(RTX_PRO)[0].id, 2),
        CreateComputeInstance(GPU, 2),
    ]
    assert [(step.function, step.profile) for step in plan[4:]] == [
        (VFS[0], f"{DC}-1-8Q"),
        (VFS[1], f"{DC}-1-2Q"),
        (VFS[2], f"{DC}-1-2Q"),
    ]


def test_an_instance_without_compute_instance_gets_one() -> None:
    look = rtx(None, instance(RTX_PRO, 3, "1g.24gb+gfx", 4, computes=0))
    plan = steps(plan_layout(desired((f"{DC}-1-24Q", 1)), look))
    assert [type(step) for step in plan] == [CreateComputeInstance, SetVgpuType]


def test_an_instance_in_the_way_goes_with_its_vgpus() -> None:
    there = instance(RTX_PRO, 3, "1g.24gb+gfx", 2), instance(RTX_PRO, 5, "1g.24gb+gfx", 4)
    carried = {0: f"{DC}-1-8Q", 1: f"{DC}-1-8Q"}
    places: dict[int, tuple[int | None, int | None]] = {0: (0, 3), 1: (0, 5)}
    asked = desired((f"{DC}-1-8Q", 1), (f"{DC}-2-48Q", 1))

    plan = steps(plan_layout(asked, rtx(carried, *there, places=places)))
    held = steps(plan_layout(asked, rtx(carried, *there, places=places, held=(1,))))
    both = plan_layout(asked, rtx(carried, *there, places=places, held=(0, 1)))

    for one, vf, start in ((plan, 1, 4), (held, 0, 2)):
        assert [step.start for step in one if isinstance(step, DestroyGpuInstance)] == [start]
        changed = [step.function for step in one if isinstance(step, SetVgpuType)]
        assert changed == [VFS[vf], VFS[vf]]
    assert reasons(both) == ["DeviceInUse"]
    more = desired((f"{DC}-1-8Q", 6), (f"{DC}-2-48Q", 1))
    stuck = plan_layout(more, rtx(carried, *there, places=places, held=(0, 1)))
    assert reasons(stuck) == ["InstancesDoNotFit"]
    assert isinstance(stuck, tuple)
    assert "in use are in the way" in stuck[0].words


def test_vgpus_that_an_empty_instance_would_attract_come_after_those_that_need_it() -> None:
    there = instance(RTX_PRO, 4, "1g.24gb+gfx", 2), instance(RTX_PRO, 5, "1g.24gb+gfx", 6)
    look = rtx({0: f"{DC}-1-6Q"}, *there, places={0: (0, 5)}, held=(0,))

    plan = steps(plan_layout(desired((f"{DC}-1-6Q", 3), (f"{DC}-1-2Q", 1)), look))

    assert [step.profile for step in plan] == [f"{DC}-1-2Q", f"{DC}-1-6Q", f"{DC}-1-6Q"]


def test_a_new_instance_may_attract_as_well() -> None:
    there = instance(RTX_PRO, 5, "1g.24gb+gfx", 6)
    look = rtx({0: f"{DC}-1-6Q"}, there, places={0: (0, 5)}, held=(0,))

    plan = steps(plan_layout(desired((f"{DC}-1-6Q", 3), (f"{DC}-1-2Q", 1)), look))

    assert [type(step) for step in plan[:2]] == [CreateGpuInstance, CreateComputeInstance]
    assert [step.profile for step in plan[2:]] == [f"{DC}-1-2Q", f"{DC}-1-6Q", f"{DC}-1-6Q"]


def test_an_instance_goes_only_while_no_process_has_the_card_open() -> None:
    user = Holder("process", "process 99 (python3) has /dev/nvidia0 open")
    there = instance(RTX_PRO, 3, "1g.24gb+gfx", 2)
    look = rtx(None, there, holders={GPU: (user,)})
    assert reasons(plan_layout(desired((f"{DC}-4-96Q", 1)), look)) == ["DeviceInUse"]
    assert steps(plan_layout(desired((f"{DC}-2-48Q", 1)), look))


def test_on_mdev_types_that_come_with_their_instance_wait_for_a_second_plan() -> None:
    modes = GpuModes(mig=True, profiles=with_ids(A100))
    asked = desired(("GRID A100-3-20C", 2))

    first = plan_layout(asked, situation(pf(A100), names=(), modes=modes))
    assert isinstance(first, Plan)
    assert {type(step) for step in first.steps} == {CreateGpuInstance, CreateComputeInstance}
    assert first.then == ("configure A100-3-20C=2",)

    there = instance(A100, 1, "3g.20gb", 0), instance(A100, 2, "3g.20gb", 4)
    made = msgspec.structs.replace(modes, instances=there)
    second = plan_layout(asked, situation(pf(A100), names=("GRID A100-3-20C",), modes=made))
    assert [type(step) for step in steps(second)] == [CreateMdev, CreateMdev]

    unlisted = plan_layout(asked, situation(pf(A100), names=(), modes=made))
    assert reasons(unlisted) == ["ProfileNotOffered"]


def test_instances_that_do_not_fit_are_refused_before_anything_is_torn_down() -> None:
    look = situation(
        pf(A100), {0: "GRID A100-20C"}, names=("GRID A100-20C",), modes=GpuModes(mig=False)
    )
    assert reasons(plan_layout(desired(("GRID A100-3-20C", 3)), look)) == ["InstancesDoNotFit"]
