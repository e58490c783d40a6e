"""The layout that serves most of a demand, against every layout of small fleets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet import board
from laneway.core.fleet.model import Fleet, Gpu, Node, Vgpu
from laneway.core.fleet.recommend.layout import Recommendation, as_groups, recommend
from laneway.core.gpu.modes import Mode
from laneway.core.vgpu.placement import Carried, arrange
from laneway.core.vgpu.profiles import framebuffer_mib

Q4, Q8, Q16, C4 = "NVIDIA A2-4Q", "NVIDIA A2-8Q", "NVIDIA A2-16Q", "NVIDIA A2-4C"
NAMES = (Q4, Q8, Q16, C4)
GIB = 1024


def gpu(name: str, mode: Mode = Mode.SAME_SIZE, *vgpus: Vgpu, functions: int = 16) -> Gpu:
    return Gpu(
        name=name,
        node="n",
        address="0000:08:00.0",
        device="25b6",
        mode=mode,
        functions=functions,
        profiles=NAMES,
        vgpus=vgpus,
    )


def fleet(*gpus: Gpu) -> Fleet:
    return Fleet(nodes=(Node(name="n"),), gpus=gpus)


def vgpu(profile: str, slot: int | None, holder: str = "d/x") -> Vgpu:
    return Vgpu(name=f"v{slot}", profile=profile, slot=slot, holder=holder)


def shown(found: Recommendation) -> list[tuple[str, Mode, dict[str, int]]]:
    return [(one.gpu, one.mode, dict(one.new)) for one in found.gpus]


def test_a_mixed_demand_takes_one_gpu_in_mixed_mode() -> None:
    found = recommend(fleet(gpu("a")), {Q8: 1, Q4: 2})
    assert shown(found) == [("a", Mode.MIXED_SIZE, {Q8: 1, Q4: 2})]
    assert found.optimal


def test_no_mode_changes_where_the_present_one_serves_as_much() -> None:
    found = recommend(fleet(gpu("a"), gpu("b", Mode.MIXED_SIZE)), {Q8: 2, Q4: 4})
    assert sorted(one.mode for one in found.gpus) == [Mode.MIXED_SIZE, Mode.SAME_SIZE]
    assert (found.served_mib, found.optimal) == (32 * GIB, True)


def test_what_is_held_stays_and_so_does_the_mode_of_its_gpu() -> None:
    there = fleet(gpu("a", Mode.SAME_SIZE, vgpu(Q4, None)))
    found = recommend(there, {Q8: 2, Q4: 1})
    assert shown(found) == [("a", Mode.SAME_SIZE, {Q4: 1})]
    assert as_groups(found)[0].vgpus == {Q4: 2}
    assert found.optimal


def test_a_demand_that_no_fleet_serves_has_the_bound_of_what_it_can() -> None:
    found = recommend(fleet(gpu("a"), gpu("b")), {Q16: 3})
    assert (found.served, found.bound_mib) == ({Q16: 2}, 32 * GIB)


def test_no_more_vgpus_than_functions() -> None:
    assert recommend(fleet(gpu("a", functions=3)), {Q4: 4}).served == {Q4: 3}


def test_without_time_there_is_a_bound_and_no_proof() -> None:
    found = recommend(fleet(gpu("a"), gpu("b")), {Q8: 1, Q4: 5}, seconds=0)
    assert found.bound_mib == 28 * GIB
    assert found.optimal == (found.served_mib == 28 * GIB)


def test_the_solver_writes_nothing_where_documents_go(capfd: pytest.CaptureFixture[str]) -> None:
    recommend(fleet(gpu("a")), {Q8: 1, Q4: 2})
    assert capfd.readouterr() == ("", "")


def test_gpus_with_the_same_are_one_layout() -> None:
    found = recommend(fleet(gpu("a"), gpu("b"), gpu("c")), {Q8: 4, Q16: 1})
    groups = as_groups(found)
    assert sorted((len(one.gpus), dict(one.vgpus)[min(one.vgpus)]) for one in groups) == [
        (1, 1),
        (2, 2),
    ]


@st.composite
def gpus(draw: st.DrawFn, name: str) -> Gpu:
    mode = draw(st.sampled_from([Mode.SAME_SIZE, Mode.MIXED_SIZE]))
    empty = gpu(name, mode, functions=draw(st.sampled_from([2, 16])))
    there: list[Vgpu] = []
    for number, profile in enumerate(draw(st.lists(st.sampled_from(NAMES[:2]), max_size=2))):
        carried = [Carried(one.profile, one.slot) for one in there]
        placed = arrange(board.card(empty), carried, {profile: 1}, mixed=mode is Mode.MIXED_SIZE)
        if placed:
            holder = draw(st.sampled_from(["", "d/x"]))
            slot = placed[0].start
            there.append(Vgpu(name=f"{name}{number}", profile=profile, slot=slot, holder=holder))
    return msgspec.structs.replace(empty, vgpus=tuple(there))


def possible(one: Gpu, demand: Mapping[str, int]) -> Iterator[Counter[str]]:
    """Everything that a GPU could have in addition to what is held, in any mode it may have."""
    held = board.carried(one, held_only=True)
    modes = [board.is_mixed(one)] if held else [False, True]
    for counts in product(*(range(count + 1) for count in demand.values())):
        new = +Counter(dict(zip(demand, counts, strict=True)))
        if len(held) + new.total() <= one.functions and any(
            arrange(board.card(one), held, new, mixed=mixed) is not None for mixed in modes
        ):
            yield new


def best(there: Fleet, demand: dict[str, int]) -> int:
    most = 0
    for chosen in product(*(list(possible(one, demand)) for one in there.gpus)):
        served = sum(chosen, Counter[str]()) & Counter(demand)
        most = max(most, sum(framebuffer_mib(name) * count for name, count in served.items()))
    return most


@given(
    gpus("a"),
    gpus("b"),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1, max_size=3),
)
def test_no_layout_serves_more(one: Gpu, other: Gpu, demand: dict[str, int]) -> None:
    there = fleet(one, other)
    found = recommend(there, demand)
    for layout in found.gpus:
        of = next(each for each in there.gpus if each.name == layout.gpu)
        held = board.carried(of, held_only=True)
        assert not held or layout.mode == of.mode
        assert len(held) + sum(layout.new.values()) <= of.functions
        mixed = layout.mode is Mode.MIXED_SIZE
        assert arrange(board.card(of), held, layout.new, mixed=mixed) is not None
    assert all(count <= demand[name] for name, count in found.served.items())
    assert found.served_mib == found.bound_mib == best(there, demand)
