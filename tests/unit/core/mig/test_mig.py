"""GPU instances: which a desired state needs, and where they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.mig.instances import InstanceSet, Obstacle, arrange_instances, instances_needed
from laneway.core.mig.profiles import expected_profiles
from laneway.core.vgpu.profiles import Profile, profile

A100, A30, RTX_PRO = "20f1", "20b7", "2bb5"
MIG_CARDS = (A100, "20b5", A30, "2331", "2321", "233b", "2901", "2941", "3182", RTX_PRO, "2bb9")


def offered(device: str) -> dict[str, GpuInstanceProfile]:
    return {one.name: one for one in expected_profiles(device)}


def vgpu(name: str) -> Profile:
    found = profile(name)
    assert found is not None
    return found


def existing(device: str, *spots: tuple[str, int]) -> tuple[GpuInstance, ...]:
    profiles = offered(device)
    return tuple(
        GpuInstance(number, name, profiles[name].id, start, profiles[name].size, 1)
        for number, (name, start) in enumerate(spots, 1)
    )


def spots(found: InstanceSet | Obstacle) -> list[tuple[str, int]]:
    assert isinstance(found, InstanceSet), found
    return [(one.name, start) for one, start in found.create]


# ------------------------------------------------------------------------- which ones are needed


def test_an_instance_holds_one_size_and_twelve_vgpus() -> None:
    small, large = (f"NVIDIA RTX Pro 6000 Blackwell DC-1-{size}Q" for size in (2, 8))
    profiles = expected_profiles(RTX_PRO)

    assert instances_needed({small: 12}, profiles) == {"1g.24gb+gfx": 1}
    assert instances_needed({small: 13}, profiles) == {"1g.24gb+gfx": 2}
    assert instances_needed({small: 1, large: 4}, profiles) == {"1g.24gb+gfx": 3}
    assert instances_needed({small: 2}, profiles, [(3, small), (4, small)]) == {"1g.24gb+gfx": 2}


def test_a_profile_that_no_instance_serves_is_reported() -> None:
    found = instances_needed({"GRID A100-3-20C": 1}, expected_profiles(A30))
    assert isinstance(found, Obstacle)
    assert "GRID A100-3-20C" in found.text
    assert "1g.6gb" in found.text


# ------------------------------------------------------------------------------- where they can be


def test_large_instances_are_placed_first() -> None:
    found = arrange_instances(expected_profiles(A100), (), {"1g.5gb": 3, "4g.20gb": 1})
    assert spots(found) == [("4g.20gb", 0), ("1g.5gb", 4), ("1g.5gb", 5), ("1g.5gb", 6)]


def test_what_is_there_counts_and_stays() -> None:
    there = existing(A100, ("3g.20gb", 4), ("1g.5gb", 0))

    found = arrange_instances(expected_profiles(A100), there, {"3g.20gb": 1, "2g.10gb": 1})

    assert found == InstanceSet((), ((offered(A100)["2g.10gb"], 2),))


def test_only_what_is_in_the_way_is_destroyed() -> None:
    there = existing(A100, ("1g.5gb", 1), ("1g.5gb", 4), ("1g.5gb", 6))

    found = arrange_instances(expected_profiles(A100), there, {"3g.20gb": 1})

    assert isinstance(found, InstanceSet)
    assert found.destroy == (there[0],)
    assert spots(found) == [("3g.20gb", 0)]


def test_an_instance_with_vgpus_is_destroyed_last_and_one_in_use_never() -> None:
    there = existing(A100, ("2g.10gb", 0), ("2g.10gb", 4))
    profiles = expected_profiles(A100)

    carrying = arrange_instances(profiles, there, {"3g.20gb": 1}, carrying=frozenset({0}))
    used = arrange_instances(profiles, there, {"3g.20gb": 1}, pinned=frozenset({0, 4}))

    assert isinstance(carrying, InstanceSet)
    assert carrying.destroy == (there[1],)
    assert used == Obstacle("instances in use are in the way: 2g.10gb at 0, 2g.10gb at 4")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"1g.5gb": 8}, "room for 7 x 1g.5gb, not 8"),
        ({"3g.20gb": 2, "2g.10gb": 1}, "8 of 7 compute slices"),
        ({"3g.20gb": 1, "1g.10gb": 3}, "10 of 8 memory slices"),
        ({"9g.90gb": 1}, "the card has no 9g.90gb"),
    ],
)
def test_what_cannot_be_has_a_reason(wanted: dict[str, int], words: str) -> None:
    found = arrange_instances(expected_profiles(A100), (), wanted)
    assert isinstance(found, Obstacle)
    assert words in found.text


def test_compute_slices_are_counted_where_memory_would_do() -> None:
    drivers = (
        GpuInstanceProfile("4g.10gb", 1, 2, (0, 2), 2),
        GpuInstanceProfile("7g.40gb", 2, 1, (0,), 8),
    )
    found = arrange_instances(drivers, (), {"4g.10gb": 2})
    assert found == Obstacle("they need 8 of 7 compute slices")


# ---------------------------------------------------------------------------------------- laws


@st.composite
def sets_of_instances(draw: st.DrawFn) -> tuple[str, tuple[GpuInstance, ...], dict[str, int]]:
    device = draw(st.sampled_from(MIG_CARDS))
    names = st.sampled_from(sorted(offered(device)))
    counts = st.dictionaries(names, st.integers(1, 3), max_size=3)
    there = arrange_instances(expected_profiles(device), (), draw(counts))
    found = there.create if isinstance(there, InstanceSet) else ()
    spots_of_it = draw(st.lists(st.sampled_from(found), unique=True)) if found else []
    instances = existing(device, *((one.name, start) for one, start in spots_of_it))
    return device, instances, draw(counts)


def fits_by_trying(device: str, wanted: Iterable[str]) -> bool:
    """Every placement of every instance tried, without any thought."""
    profiles = offered(device)
    queue = list(wanted)

    def go(index: int, used: frozenset[int]) -> bool:
        if index == len(queue):
            return True
        one = profiles[queue[index]]
        runs = (frozenset(range(start, start + one.size)) for start in one.starts)
        return any(not run & used and go(index + 1, used | run) for run in runs)

    return go(0, frozenset())


@given(sets_of_instances(), st.data())
def test_an_arrangement_overlaps_nothing_and_spares_what_is_in_use(
    drawn: tuple[str, tuple[GpuInstance, ...], dict[str, int]], data: st.DataObject
) -> None:
    device, there, wanted = drawn
    pinned = frozenset(
        data.draw(st.lists(st.sampled_from([one.start for one in there]))) if there else []
    )
    found = arrange_instances(expected_profiles(device), there, wanted, pinned=pinned)
    if isinstance(found, Obstacle):
        return
    kept = [one for one in there if one not in found.destroy]
    assert not pinned & {one.start for one in found.destroy}
    taken = [(one.start, one.size) for one in kept]
    taken += [(start, one.size) for one, start in found.create]
    slices = [slot for start, size in taken for slot in range(start, start + size)]
    assert len(slices) == len(set(slices))
    have = Counter(one.profile for one in kept) + Counter(one.name for one, _ in found.create)
    assert all(have[name] >= count for name, count in wanted.items())
    assert all(start in one.starts for one, start in found.create)


@given(sets_of_instances())
def test_what_fits_on_an_empty_card_always_fits_when_nothing_is_in_use(
    drawn: tuple[str, tuple[GpuInstance, ...], dict[str, int]],
) -> None:
    device, there, wanted = drawn
    profiles = offered(device)
    within = all(count <= profiles[name].total for name, count in wanted.items())
    slices = sum(int(name[0]) * count for name, count in wanted.items())
    possible = (
        within
        and slices <= max(int(name[0]) for name in profiles)
        and fits_by_trying(device, Counter(wanted).elements())
    )
    found = arrange_instances(expected_profiles(device), there, wanted)
    assert isinstance(found, InstanceSet) == possible
