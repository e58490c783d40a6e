"""What is decided about one vGPU, as a table of situations and as laws."""

from __future__ import annotations

import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.decision import refusals_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.plan import CreateMdev, Plan, RemoveMdev, Satisfied, SetVgpuType, undo
from laneway.core.refusals import (
    ProfileExhausted,
    ProfileMissing,
    ProfileNotListed,
    UnmanagedVgpu,
    VfNotFound,
)
from laneway.core.vgpu.desired import DesiredVgpu, SharedGpu, decide, mdev_uuid

GPU = PciAddress.parse("0000:08:00.0")
VF = PciAddress.parse("0000:08:00.4")
Q4 = VgpuType("nvidia-745", "NVIDIA A2-4Q")
Q8 = VgpuType("nvidia-746", "NVIDIA A2-8Q")


def function(
    *,
    creatable: tuple[VgpuType, ...] = (Q4, Q8),
    configured: ConfiguredVgpu | None = None,
    framework: str = "mdev",
    address: PciAddress = VF,
    supported: tuple[VgpuType, ...] = (Q4, Q8),
) -> VgpuFunction:
    return VgpuFunction(
        address=address,
        parent=GPU,
        framework=framework,  # type: ignore[arg-type]
        supported=supported,
        creatable=creatable,
        configured=configured,
    )


def desired(profile: str = "", *, enabled: bool = True, explicit: bool = True) -> DesiredVgpu:
    return DesiredVgpu(VF, enabled, profile, explicit)


def decide_one(asked: DesiredVgpu, one: VgpuFunction | None):
    return decide(asked, "node1", SharedGpu((one,) if one else ()))


def test_an_empty_function_gets_the_profile_with_its_live_type_id():
    plan = decide_one(desired("NVIDIA A2-4Q"), function())

    assert plan == Plan(
        (CreateMdev(VF, "nvidia-745", "NVIDIA A2-4Q", mdev_uuid("node1", function())),)
    )


def test_vendor_vfio_writes_the_type_instead():
    plan = decide_one(desired("NVIDIA A2-4Q"), function(framework="vendor-vfio"))

    assert plan == Plan((SetVgpuType(VF, "nvidia-745", "0", "NVIDIA A2-4Q"),))


def test_what_is_as_desired_is_left_alone():
    there = function(configured=ConfiguredVgpu("nvidia-745", "NVIDIA A2-4Q", "u"), creatable=())

    assert decide_one(desired("NVIDIA A2-4Q"), there) == Satisfied()


def test_disabling_removes_only_on_an_explicit_desired_state():
    there = function(configured=ConfiguredVgpu("nvidia-745", "NVIDIA A2-4Q", "u"), creatable=())

    explicit = decide_one(desired(enabled=False), there)
    inherited = decide_one(desired(enabled=False, explicit=False), there)

    assert explicit == Plan((RemoveMdev(VF, "nvidia-745", "NVIDIA A2-4Q", "u"),))
    assert inherited == (UnmanagedVgpu("NVIDIA A2-4Q"),)


def test_another_profile_replaces_the_one_that_is_there_and_can_be_taken_back():
    there = function(configured=ConfiguredVgpu("nvidia-745", "NVIDIA A2-4Q", "u"), creatable=())

    plan = decide_one(desired("NVIDIA A2-8Q"), there)

    assert isinstance(plan, Plan)
    remove, create = plan.steps
    assert remove == RemoveMdev(VF, "nvidia-745", "NVIDIA A2-4Q", "u")
    assert isinstance(create, CreateMdev)
    assert create.profile == "NVIDIA A2-8Q"
    assert undo(remove) == CreateMdev(VF, "nvidia-745", "NVIDIA A2-4Q", "u")


@pytest.mark.parametrize(
    ("asked", "there", "refusal"),
    [
        (desired(""), function(), ProfileMissing(("NVIDIA A2-4Q", "NVIDIA A2-8Q"))),
        (
            desired("NVIDIA A2-99Q"),
            function(),
            ProfileNotListed("NVIDIA A2-99Q", ("NVIDIA A2-4Q", "NVIDIA A2-8Q")),
        ),
        (
            desired("NVIDIA A2-8Q"),
            function(creatable=(Q4,)),
            ProfileExhausted("NVIDIA A2-8Q", (), ("NVIDIA A2-4Q",)),
        ),
        (desired("NVIDIA A2-8Q"), None, VfNotFound("0000:08:00.4")),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_facts(asked, there, refusal):
    assert decide_one(asked, there) == (refusal,)


def test_an_exhausted_profile_names_what_the_gpu_carries():
    mine = function(creatable=())
    other = function(
        address=PciAddress.parse("0000:08:00.5"),
        creatable=(),
        configured=ConfiguredVgpu("nvidia-746", "NVIDIA A2-8Q", "u"),
    )

    [refusal] = decide(desired("NVIDIA A2-4Q"), "node1", SharedGpu((mine, other)))

    assert isinstance(refusal, ProfileExhausted)
    assert "A2-8Q=1" in refusal.words


def vendor_card(carried: str, *listed: str) -> tuple[VgpuFunction, VgpuFunction]:
    """A free function of a card on vendor VFIO, and its sibling with the one vGPU."""
    types = tuple(VgpuType(str(at), name) for at, name in enumerate(listed, 1000))
    free = function(framework="vendor-vfio", creatable=types, supported=types)
    busy = function(
        address=PciAddress.parse("0000:08:00.5"),
        framework="vendor-vfio",
        creatable=(),
        supported=(),
        configured=ConfiguredVgpu("990", carried),
    )
    return free, busy


@pytest.mark.parametrize(
    ("carried", "listed", "asked", "reason"),
    [
        ("NVIDIA L40S-8Q", ("NVIDIA L40S-8A",), "NVIDIA L40S-48Q", ProfileExhausted),
        ("NVIDIA L40S-8Q", (), "NVIDIA L40S-8Q", ProfileExhausted),
        ("NVIDIA L40S-8Q", (), "NVIDIA L40S-48Q", ProfileExhausted),
        ("NVIDIA L40S-8Q", (), "NVIDIA A2-4Q", ProfileNotListed),
        ("NVIDIA L40S-8Q", (), "NVIDIA L40S-99Q", ProfileNotListed),
        ("NVIDIA NEW-8Q", (), "NVIDIA NEW-8Q", ProfileExhausted),
        ("NVIDIA NEW-8Q", (), "NVIDIA NEW-48Q", ProfileNotListed),
        # The driver's id is new to the catalogue, so what runs has no name.
        ("", ("NVIDIA L40S-8A",), "NVIDIA L40S-48Q", ProfileExhausted),
        ("", ("NVIDIA L40S-8A",), "NVIDIA A2-4Q", ProfileNotListed),
        ("", (), "NVIDIA L40S-48Q", ProfileExhausted),
        ("", (), "", ProfileMissing),
        ("", (), "nonsense", ProfileNotListed),
    ],
)
def test_a_vendor_profile_that_is_not_listed_now_is_known_all_the_same(
    carried, listed, asked, reason
):
    free, busy = vendor_card(carried, *listed)

    [refusal] = decide(desired(asked), "node1", SharedGpu((free, busy)))
    assert isinstance(refusal, reason)


@pytest.mark.parametrize("listed", [(), ("NVIDIA L40S-8A", "NVIDIA L40S-8Q")])
def test_the_one_vendor_vgpu_gets_another_size_in_one_plan_that_can_be_undone(listed):
    free, busy = vendor_card("NVIDIA L40S-8Q", *listed)
    asked = DesiredVgpu(busy.address, True, "NVIDIA L40S-48Q", explicit=True)

    plan = decide(asked, "node1", SharedGpu((free, busy)))

    assert plan == Plan(
        (
            SetVgpuType(busy.address, "0", "990", "NVIDIA L40S-8Q"),
            SetVgpuType(busy.address, "", "0", "NVIDIA L40S-48Q"),
        )
    )
    assert undo(plan.steps[0]) == SetVgpuType(busy.address, "990", "0", "NVIDIA L40S-8Q")


A2 = PciFunction(address=GPU, vendor=NVIDIA, device="25b6", class_code="030200", sriov_gpu=True)


def full_card(*profiles: VgpuType) -> SharedGpu:
    """An A2 on mdev with these vGPUs, and one function without."""
    made = [
        function(
            address=PciAddress(0, 8, 0, 4 + number),
            creatable=(),
            configured=ConfiguredVgpu(kind.id, kind.name, f"uuid {number}"),
        )
        for number, kind in enumerate(profiles)
    ]
    free = function(address=PciAddress(0, 8, 1, 0), creatable=())
    return SharedGpu((*made, free), A2, GpuModes(mixed_size=False))


def changed(shared: SharedGpu, number: int, kind: VgpuType) -> DesiredVgpu:
    return DesiredVgpu(shared.functions[number].address, True, kind.name, explicit=True)


def test_a_change_that_cannot_fit_is_refused_before_anything_goes():
    shared = full_card(Q4, Q4)

    decision = decide(changed(shared, 0, Q8), "node1", shared)

    assert decision == (ProfileExhausted(Q8.name, ((Q4.name, 2),), (), 2),)


def test_a_change_that_fits_only_with_others_is_one_plan_that_removes_first():
    shared = full_card(Q4, Q4)
    desired_states = [changed(shared, number, Q8) for number in (0, 1)]

    plan = decide(desired_states[0], "node1", shared, desired_states)

    assert isinstance(plan, Plan)
    assert [type(step) for step in plan.steps] == [RemoveMdev, RemoveMdev, CreateMdev, CreateMdev]
    assert {step.function for step in plan.steps[:2]} == {
        desired.address for desired in desired_states
    }
    assert {step.function for step in plan.steps[2:]} == {
        desired.address for desired in desired_states
    }


def test_a_change_that_fits_by_itself_leaves_the_others_alone():
    shared = full_card(Q8, Q8)
    other = VgpuType("nvidia-999", "NVIDIA A2-8C")
    shared = SharedGpu(
        tuple(msgspec.structs.replace(one, supported=(Q4, Q8, other)) for one in shared.functions),
        shared.gpu,
        shared.modes,
    )
    desired_states = [changed(shared, number, other) for number in (0, 1)]

    plan = decide(desired_states[0], "node1", shared, desired_states)

    assert isinstance(plan, Plan)
    assert {step.function for step in plan.steps} == {desired_states[0].address}


def test_more_changes_than_fit_together_are_all_refused():
    shared = full_card(Q4, Q4, Q4)
    desired_states = [changed(shared, number, Q8) for number in (0, 1, 2)]

    decisions = [decide(desired, "node1", shared, desired_states) for desired in desired_states]

    assert {type(one) for [one] in map(refusals_of, decisions)} == {ProfileExhausted}


def test_a_missing_function_is_no_problem_for_a_disabled_vgpu():
    assert decide_one(desired(enabled=False), None) == Satisfied()


def test_the_uuid_depends_on_place_alone():
    one, same = function(), function(creatable=())
    elsewhere = function(address=PciAddress.parse("0000:08:00.5"))

    assert mdev_uuid("node1", one) == mdev_uuid("node1", same)
    assert (
        len({mdev_uuid("node1", one), mdev_uuid("node2", one), mdev_uuid("node1", elsewhere)}) == 3
    )
    assert uuid.UUID(mdev_uuid("node1", one)).version == 5


TYPES = st.lists(st.sampled_from([Q4, Q8]), unique=True).map(tuple)
CONFIGURED = st.none() | st.sampled_from([Q4, Q8]).map(
    lambda kind: ConfiguredVgpu(kind.id, kind.name, "u")
)
FUNCTIONS = st.builds(
    function,
    creatable=TYPES,
    configured=CONFIGURED,
    framework=st.sampled_from(["mdev", "vendor-vfio"]),
)
DESIRED_STATES = st.builds(
    desired,
    st.sampled_from(["", "NVIDIA A2-4Q", "NVIDIA A2-8Q", "nonsense"]),
    enabled=st.booleans(),
    explicit=st.booleans(),
)


@given(DESIRED_STATES, st.none() | FUNCTIONS)
def test_nothing_is_torn_down_without_an_explicit_desired_state(asked, there):
    decision = decide_one(asked, there)

    if isinstance(decision, Plan) and not asked.enabled:
        assert asked.explicit


@given(DESIRED_STATES, st.none() | FUNCTIONS)
def test_every_refusal_has_words_and_a_reason(asked, there):
    decision = decide_one(asked, there)

    for refusal in refusals_of(decision):
        assert len(refusal.words) > 20
        assert refusal.reason.isalnum()


@given(DESIRED_STATES, FUNCTIONS)
def test_carrying_out_a_plan_satisfies_the_desired_state(asked, there):
    decision = decide_one(asked, there)
    if not isinstance(decision, Plan):
        return

    last = decision.steps[-1]
    after = None
    if isinstance(last, CreateMdev):
        after = ConfiguredVgpu(last.type_id, last.profile, last.uuid)
    elif isinstance(last, SetVgpuType) and last.type_id != "0":
        after = ConfiguredVgpu(last.type_id, last.profile)
    done = function(creatable=(), configured=after, framework=there.framework)

    assert decide_one(asked, done) == Satisfied()
