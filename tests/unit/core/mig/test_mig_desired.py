"""A spec for GPU instances against what there is: any start, any desired state, every obstacle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction
from laneway.core.mig.desired import DesiredMig, decide, is_complete
from laneway.core.mig.instances import how_many_more
from laneway.core.plan import (
    CreateComputeInstance,
    DestroyGpuInstance,
    Plan,
    Satisfied,
)
from laneway.core.refusals import DeviceHeld, ExtraInstances, InstancesDoNotFit
from laneway.core.situation import Holder, Situation, glance
from laneway.sim.nvidia.geometry import GEOMETRIES
from support.effects import Kernel
from support.examples import many
from support.looks import A100, GPU, QEMU, RTX_PRO, VFS, pf, reasons, situation, steps

COMPUTING = Holder("process", "process 99 (python) has /dev/nvidia0 open")


def offered(device: str) -> tuple[GpuInstanceProfile, ...]:
    return tuple(
        GpuInstanceProfile(
            one.name,
            one.id,
            one.total,
            one.starts,
            one.size,
            msgspec.structs.astuple(one.engines),
        )
        for one in GEOMETRIES[device].profiles
    )


def instance(device: str, name: str, start: int, computes: int = 1) -> GpuInstance:
    one = next(one for one in offered(device) if one.name == name)
    return GpuInstance(10 + start, name, one.id, start, one.size, computes)


def card(
    *there: GpuInstance,
    device: str = A100,
    mig: bool | None = True,
    inside: tuple[int, ...] = (),
    **more: object,
) -> Situation:
    """A card with instances; in those at the placements `inside` is a vGPU each."""
    modes = GpuModes(mig=mig, profiles=offered(device), instances=there)
    look = situation(pf(device), names=(), framework="vendor-vfio", modes=modes, **more)
    vgpus = list(look.inventory.vgpus)
    for index, start in enumerate(inside):
        (home,) = (one for one in there if one.start == start)
        vgpu = ConfiguredVgpu("999", f"NVIDIA X-{home.profile}", gpu_instance=home.id)
        vgpus[index] = msgspec.structs.replace(vgpus[index], configured=vgpu)
    inventory = msgspec.structs.replace(
        look.inventory,
        vgpus=tuple(vgpus),
        modes=look.gpus,
        unasked=look.unasked,
    )
    return msgspec.structs.replace(look, inventory=inventory)


def desired(
    counts: dict[str, int] | Iterable[tuple[str, int]],
    *,
    enabled: bool = True,
    explicit: bool = True,
) -> DesiredMig:
    pairs = counts.items() if isinstance(counts, dict) else counts
    return DesiredMig(GPU, "node1-000008000", enabled, tuple(pairs), explicit)


def spots(there: Iterable[GpuInstance]) -> list[tuple[str, int]]:
    return [(one.profile, one.start) for one in there]


def carried_out(decision: object, look: Situation) -> tuple[GpuInstance, ...]:
    return Kernel().run(steps(decision), look).gpus[GPU].instances


def words(decision: object) -> str:
    assert isinstance(decision, tuple), decision
    return " ".join(refusal.words for refusal in decision)


# ----------------------------------------------------------------------------------- what is done


def test_either_spelling_of_a_profile_will_do() -> None:
    asked = desired([("MIG 1g.5gb", 2), ("3g.20gb", 1), (" MIG 7g.40gb ", 0)])
    there = carried_out(decide(asked, card()), card())
    assert spots(there) == [("3g.20gb", 0), ("1g.5gb", 4), ("1g.5gb", 5)]
    assert all(one.compute_instances == 1 for one in there)


def test_from_a_set_made_by_half_only_the_rest_is_made() -> None:
    look = card(instance(A100, "1g.5gb", 3), instance(A100, "1g.5gb", 6, computes=0))

    plan = decide(desired({"1g.5gb": 3}), look)

    assert not any(isinstance(step, DestroyGpuInstance) for step in steps(plan))
    assert CreateComputeInstance(GPU, 6) in steps(plan)
    assert len(carried_out(plan, look)) == 3


def test_of_surplus_ones_those_go_that_hold_nothing_and_come_last() -> None:
    ones = [instance(A100, "1g.5gb", start, computes=int(start != 0)) for start in range(4)]
    look = card(*ones, inside=(3,))

    there = carried_out(decide(desired({"1g.5gb": 2}), look), look)

    assert spots(there) == [("1g.5gb", 1), ("1g.5gb", 3)]


def test_a_set_is_moved_where_it_must_be() -> None:
    look = card(instance(A100, "1g.5gb", 1), instance(A100, "1g.5gb", 5))

    there = carried_out(decide(desired({"1g.5gb": 2, "3g.20gb": 1}), look), look)

    assert Counter(one.profile for one in there) == {"1g.5gb": 2, "3g.20gb": 1}


def test_disabling_takes_everything_away_that_exists() -> None:
    look = card(instance(A100, "1g.5gb", 0), instance(A100, "2g.10gb", 2, computes=0))
    off = decide(desired({"7g.40gb": 1}, enabled=False), look)
    assert carried_out(off, look) == ()


def test_what_is_as_desired_needs_nothing() -> None:
    look = card(instance(A100, "1g.5gb", 0))
    assert decide(desired({"1g.5gb": 1}), look) == Satisfied()
    assert decide(desired({}, enabled=False), card()) == Satisfied()
    assert decide(desired({"1g.5gb": 1}), glance(look.inventory)) == Satisfied()
    assert isinstance(decide(desired({"1g.5gb": 2}), glance(look.inventory)), Plan)


# ----------------------------------------------------------------------------- without a clear
# desired state


def test_what_is_missing_comes_by_itself_but_nothing_goes_for_it() -> None:
    look = card(instance(A100, "2g.10gb", 0))
    asked = desired({"1g.5gb": 2}, explicit=False)

    there = carried_out(decide(asked, look), look)

    assert Counter(one.profile for one in there) == {"2g.10gb": 1, "1g.5gb": 2}
    after = card(*there)
    assert reasons(decide(asked, after)) == ["ExtraInstances"]
    assert "MIG 2g.10gb at 0" in words(decide(asked, after))
    assert is_complete(asked, after.inventory)


def test_what_has_no_room_next_to_others_is_reported() -> None:
    look = card(instance(A100, "4g.20gb", 0))
    asked = desired({"7g.40gb": 1}, explicit=False)
    assert reasons(decide(asked, look)) == ["ExtraInstances"]
    assert "No room is left for 1 x MIG 7g.40gb" in words(decide(asked, look))
    assert not is_complete(asked, look.inventory)
    assert spots(carried_out(decide(desired({"7g.40gb": 1}), look), look)) == [("7g.40gb", 0)]


def test_what_was_not_requested_is_adopted() -> None:
    look = card(instance(A100, "4g.20gb", 0))
    for asked in (desired({}, enabled=False, explicit=False), desired({}, explicit=False)):
        assert reasons(decide(asked, look)) == ["UnmanagedInstances"]


# ---------------------------------------------------------------------------------- what is refused


def test_an_instance_with_a_vgpu_stays_and_who_holds_it_is_named() -> None:
    look = card(instance(A100, "1g.5gb", 0), inside=(0,), held=(0,))

    for asked in (desired({}, enabled=False), desired({"7g.40gb": 1})):
        refused = decide(asked, look)
        assert reasons(refused) == ["DeviceInUse"]
        assert f"vGPU NVIDIA X-1g.5gb on {VFS[0]} is in its GPU instance MIG 1g.5gb at 0" in words(
            refused
        )
        assert QEMU.text in words(refused)
    assert isinstance(decide(desired({"1g.5gb": 2}), look), Plan)


def test_a_vgpu_that_could_be_in_several_keeps_all_of_them() -> None:
    look = card(*(instance(A100, "1g.5gb", start) for start in range(3)))
    vgpus = list(look.inventory.vgpus)
    vgpus[4] = msgspec.structs.replace(
        vgpus[4], configured=ConfiguredVgpu("nvidia-474", "GRID A100-1-5C", "uuid")
    )
    inventory = msgspec.structs.replace(look.inventory, vgpus=tuple(vgpus))
    look = msgspec.structs.replace(look, inventory=inventory)
    assert reasons(decide(desired({"1g.5gb": 2}), look)) == ["DeviceInUse"]
    assert isinstance(decide(desired({"1g.5gb": 4}), look), Plan)


def test_nothing_goes_while_a_process_computes_on_the_card_but_more_may_come() -> None:
    look = card(instance(A100, "1g.5gb", 0), holders={GPU: (COMPUTING,)})
    refused = decide(desired({}, enabled=False), look)
    assert reasons(refused) == ["DeviceInUse"]
    assert COMPUTING.text in words(refused)
    assert isinstance(decide(desired({"1g.5gb": 2}), look), Plan)
    visibility_error = card(instance(A100, "1g.5gb", 0), visibility_error="no root")
    assert reasons(decide(desired({}, enabled=False), visibility_error)) == ["HoldersUnknown"]


@pytest.mark.parametrize(
    ("counts", "obstacle"),
    [
        ({"1g.5gb": 8}, "room for 7 x 1g.5gb, not 8"),
        ({"1g.5gb": 10**12}, "room for 7 x 1g.5gb"),
        ({"3g.20gb": 2, "2g.10gb": 1}, "8 of 7 compute slices"),
        ({"3g.20gb": 1, "1g.10gb": 3}, "10 of 8 memory slices"),
    ],
)
def test_a_set_that_cannot_be_is_refused_before_anything_goes(
    counts: dict[str, int], obstacle: str
) -> None:
    look = card(instance(A100, "1g.5gb", 0))
    refused = decide(desired(counts), glance(look.inventory))
    assert reasons(refused) == ["InstancesDoNotFit"]
    assert obstacle in words(refused)


def test_engines_are_counted_where_slices_would_do() -> None:
    look = card(device=RTX_PRO)
    refused = decide(desired({"1g.24gb+me.all": 1, "1g.24gb+gfx": 1}), look)
    assert "they need 5 of 4 video decoders" in words(refused)
    assert isinstance(decide(desired({"1g.24gb+me.all": 1, "1g.24gb-me": 3}), look), Plan)


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([("MIG 1g.10gb+gfx", 1)], "ProfileNotOffered"),
        ([("", 1)], "ProfileNotOffered"),
        ([("1g.5gb; reboot", 1)], "ProfileNotOffered"),
        ([("x" * 100_000, 1)], "ProfileNotOffered"),
        ([("MIG MIG 1g.5gb", 1)], "ProfileNotOffered"),
        ([("MIG 1g.5gb", -1)], "CountInvalid"),
        ([("\x00", -(10**18))], "CountInvalid"),
        ([("MIG 1g.5gb", 1), ("1g.5gb", 2)], "DuplicateProfile"),
    ],
)
def test_odd_requests_are_refused_with_their_reason(
    requests: list[tuple[str, int]], reason: str
) -> None:
    refused = decide(desired(requests), card(instance(A100, "7g.40gb", 0)))
    assert reasons(refused) == [reason]
    assert len(words(refused)) < 1000


def test_what_is_not_requested_may_be_unknown() -> None:
    assert decide(desired([("MIG 9g.90gb", 0), ("MIG 9g.90gb", 0)]), card()) == Satisfied()


def test_the_card_must_be_able_and_in_mig_mode() -> None:
    asked = desired({"1g.5gb": 1})
    assert reasons(decide(asked, card(mig=False))) == ["MigModeDisabled"]
    assert "SRIOVGPUDevice node1-000008000" in words(decide(asked, card(mig=False)))
    assert reasons(decide(asked, card(mig=None))) == ["MigUnsupported"]
    unasked = card(gpus={}, unasked={GPU: "nvidia-smi ended with status 9"})
    assert reasons(decide(asked, unasked)) == ["GpuUnreadable"]
    elsewhere = situation(pf(A100, driver="vfio-pci"), gpus={})
    assert reasons(decide(asked, elsewhere)) == ["DriverMissing"]
    nothing = desired({}, enabled=False)
    for look in (card(mig=False), card(mig=None), elsewhere):
        assert decide(nothing, look) == Satisfied()
    assert reasons(decide(asked, situation(pf(address=VFS[3])))) == ["DeviceNotFound"]


def test_instances_wait_for_the_card_but_go_at_once() -> None:
    look = card(instance(A100, "1g.5gb", 0))
    refused = decide(desired({"1g.5gb": 2}), look, preparing="its functions are being switched on.")
    assert reasons(refused) == ["GpuNotReady"]
    assert "functions are being switched on" in words(refused)
    assert isinstance(decide(desired({}, enabled=False), look, preparing="functions"), Plan)


# --------------------------------------------------------------------------------------------- laws


@st.composite
def states(draw: st.DrawFn) -> tuple[str, Situation, dict[str, int]]:
    """Any partial layout that the rules allow, vGPUs in some of it, and any desired state."""
    device = draw(st.sampled_from(sorted(GEOMETRIES)))
    kinds = offered(device)
    there: list[GpuInstance] = []
    taken: set[int] = set()
    every = [(kind, start) for kind in kinds for start in kind.starts]
    for kind, start in draw(st.lists(st.sampled_from(every), max_size=6)):
        run = set(range(start, start + kind.size))
        count = sum(one.profile == kind.name for one in there)
        slices = sum(int(one.profile[0]) for one in there) + int(kind.name[0])
        names = [*(one.profile for one in there), kind.name]
        if (
            not run & taken
            and count < kind.total
            and slices <= _slices(kinds)
            and _engines_suffice(device, names)
        ):
            taken |= run
            there.append(instance(device, kind.name, start, draw(st.integers(0, 1))))
    there.sort(key=lambda one: one.start)
    starts = [one.start for one in there]
    inside = draw(st.lists(st.sampled_from(starts), unique=True, max_size=2)) if starts else []
    known = st.sampled_from([kind.name for kind in kinds])
    wanted = draw(st.dictionaries(known, st.integers(1, 4), max_size=3))
    return device, card(*there, device=device, inside=tuple(inside)), wanted


def _slices(kinds: Iterable[GpuInstanceProfile]) -> int:
    return max(int(kind.name[0]) for kind in kinds)


def _engines_suffice(device: str, names: Iterable[str]) -> bool:
    kinds = {kind.name: kind.engines for kind in offered(device)}
    used = [sum(column) for column in zip(*(kinds[name] for name in names), strict=True)]
    most = [max(column) for column in zip(*kinds.values(), strict=True)]
    return all(need <= there for need, there in zip(used, most, strict=False))


def _ways(
    kinds: dict[str, GpuInstanceProfile], names: tuple[str, ...], taken: frozenset[int]
) -> Iterator[None]:
    """Every way to place these instances next to what is taken."""
    if not names:
        yield
        return
    kind = kinds[names[0]]
    for start in kind.starts:
        run = frozenset(range(start, start + kind.size))
        if not run & taken:
            yield from _ways(kinds, names[1:], taken | run)


def fewest_destroyed(
    device: str, look: Situation, wanted: dict[str, int], pinned: set[int]
) -> int | None:
    """By trying everything; None: it cannot be done."""
    kinds = {kind.name: kind for kind in offered(device)}
    if any(count > kinds[name].total for name, count in wanted.items()):
        return None
    if sum(int(name[0]) * count for name, count in wanted.items()) > _slices(kinds.values()):
        return None
    if not _engines_suffice(device, Counter(wanted).elements()):
        return None
    there = look.gpus[GPU].instances
    for count in range(len(there) + 1):
        for gone in combinations(there, count):
            if any(one.start in pinned for one in gone):
                continue
            kept = [one for one in there if one not in gone]
            have = Counter(one.profile for one in kept)
            if have - Counter(wanted):
                continue
            taken = frozenset(
                slot for one in kept for slot in range(one.start, one.start + one.size)
            )
            missing = tuple((Counter(wanted) - have).elements())
            if next(_ways(kinds, missing, taken), False) is None:
                return count
    return None


@settings(max_examples=many(300))
@given(states())
def test_any_state_becomes_exactly_the_desired_state_or_the_refusal_is_right(
    drawn: tuple[str, Situation, dict[str, int]],
) -> None:
    device, look, wanted = drawn
    homes = {one.id: one.start for one in look.gpus[GPU].instances}
    pinned = {homes[one.configured.gpu_instance] for one in carrying(look)}  # type: ignore[union-attr, index]

    decision = decide(desired(wanted), look)

    fewest = fewest_destroyed(device, look, wanted, pinned)
    if fewest is None:
        (refusal,) = decision  # type: ignore[misc]
        possible = fewest_destroyed(device, look, wanted, set()) is not None
        assert isinstance(refusal, DeviceHeld if possible else InstancesDoNotFit)
        return
    if isinstance(decision, Satisfied):
        there = look.gpus[GPU].instances
    else:
        there = carried_out(decision, look)
        destroyed = [one for one in steps(decision) if isinstance(one, DestroyGpuInstance)]
        assert len(destroyed) == fewest
        assert not {one.start for one in destroyed} & pinned
    assert Counter(one.profile for one in there) == Counter(wanted)
    assert all(one.compute_instances for one in there)
    after = msgspec.structs.replace(
        look, gpus={GPU: msgspec.structs.replace(look.gpus[GPU], instances=there)}
    )
    assert decide(desired(wanted), after) == Satisfied()


@given(states())
def test_how_many_more_there_could_be_is_what_the_driver_says(
    drawn: tuple[str, Situation, dict[str, int]],
) -> None:
    device, look, _ = drawn
    geometry, there = GEOMETRIES[device], look.gpus[GPU].instances
    kinds = {one.name: one for one in geometry.profiles}
    layout = [(kinds[one.profile], one.start) for one in there]
    for one in offered(device):
        more = how_many_more(one, offered(device), there)
        assert more == geometry.count_free(kinds[one.name], layout)


@given(states(), st.booleans())
def test_without_an_explicit_desired_state_nothing_is_ever_destroyed(
    drawn: tuple[str, Situation, dict[str, int]], enabled: bool
) -> None:
    _, look, wanted = drawn
    decision = decide(desired(wanted, enabled=enabled, explicit=False), look)
    if isinstance(decision, Plan):
        assert enabled
        there = carried_out(decision, look)
        assert set(spots(look.gpus[GPU].instances)) <= set(spots(there))
        assert not Counter(one.profile for one in there) - (
            Counter(wanted) | Counter(one.profile for one in look.gpus[GPU].instances)
        )
        after = msgspec.structs.replace(
            look, gpus={GPU: msgspec.structs.replace(look.gpus[GPU], instances=there)}
        )
        again = decide(desired(wanted, explicit=False), after)
        assert isinstance(again, Satisfied) or isinstance(again[0], ExtraInstances)  # type: ignore[index]


def carrying(look: Situation) -> list[VgpuFunction]:
    return [one for one in look.inventory.vgpus if one.configured is not None]
