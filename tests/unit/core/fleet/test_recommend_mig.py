"""Layouts with MIG-backed vGPUs, against every layout of small fleets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet import backed, board
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Gpu, Vgpu
from laneway.core.fleet.recommend.layout import as_groups, recommend
from laneway.core.gpu.modes import Mode
from laneway.core.mig.instances import InstanceSet, arrange_instances, instances_needed
from laneway.core.vgpu.placement import arrange
from laneway.core.vgpu.profiles import framebuffer_mib, profile

GIB = 1024
_PRO = "NVIDIA RTX Pro 6000 Blackwell DC-"
_BOARDS = {
    "a100*1": [f"GRID A100-{one}" for one in ("1-5C", "2-10C", "3-20C", "1-5CME", "20C")],
    "rtx-pro-6000*1": [_PRO + one for one in ("1-24Q", "1-12Q", "2-48Q", "1-2B", "48Q")],
}


def _fleet(board_: str, *modes: Mode) -> Fleet:
    """So many nodes with a GPU."""
    fleet = made_up(f"{len(modes)}x {board_}")
    gpus = zip(fleet.gpus, modes, strict=True)
    changed = (msgspec.structs.replace(gpu, mode=mode) for gpu, mode in gpus)
    return msgspec.structs.replace(fleet, gpus=tuple(changed))


def _is_backed(name: str) -> bool:
    known = profile(name)
    return known is not None and known.mig_backed


def _fits(gpu: Gpu, mode: Mode, new: Counter[str]) -> bool:
    """Whether a GPU can have these besides what is held, by the rules of an agent."""
    if any(_is_backed(name) != (mode is Mode.MIG_BACKED) for name in new):
        return False
    if mode is not Mode.MIG_BACKED:
        held = board.carried(gpu, held_only=True)
        mixed = mode is Mode.MIXED_SIZE
        return arrange(board.card(gpu), held, new, mixed=mixed) is not None
    shape = backed.shape_of(gpu)
    wanted = Counter(one.profile for one in shape.kept) + new
    taken = [(one.start, one.profile) for one in shape.kept if one.start is not None]
    there = [one for one in shape.instances if one.start in {start for start, _ in taken}]
    kinds = backed.kinds(gpu)
    needed = instances_needed(wanted, kinds, taken)
    pinned = frozenset(one.start for one in there)
    return isinstance(needed, dict) and isinstance(
        arrange_instances(kinds, there, needed, pinned=pinned), InstanceSet
    )


def _modes(gpu: Gpu) -> tuple[Mode, ...]:
    if gpu.mode == Mode.MIG_BACKED or any(one.holder for one in gpu.vgpus):
        return (Mode(gpu.mode),)
    return (Mode.SAME_SIZE, Mode.MIXED_SIZE, Mode.MIG_BACKED)


def _possible(gpu: Gpu, demand: Mapping[str, int]) -> Iterator[Counter[str]]:
    for counts in product(*(range(count + 1) for count in demand.values())):
        new = +Counter(dict(zip(demand, counts, strict=True)))
        if any(_fits(gpu, mode, new) for mode in _modes(gpu)):
            yield new


@st.composite
def _asked(draw: st.DrawFn) -> tuple[Fleet, dict[str, int]]:
    name = draw(st.sampled_from(sorted(_BOARDS)))
    modes = draw(
        st.lists(st.sampled_from([Mode.SAME_SIZE, Mode.MIG_BACKED]), min_size=1, max_size=2)
    )
    fleet = _fleet(name, *modes)
    gpus = list(fleet.gpus)
    for number, gpu in enumerate(gpus):
        if gpu.mode == Mode.MIG_BACKED and draw(st.booleans()):
            # The second quarter, by its number; a holder keeps it.
            [kind, *_] = [one for one in _BOARDS[name] if one.endswith(("2-10C", "1-24Q"))]
            holder = draw(st.sampled_from(["", "d/x"]))
            held = Vgpu(name=f"v{number}", profile=kind, instance=4, holder=holder)
            gpus[number] = msgspec.structs.replace(gpu, vgpus=(held,))
    demand = st.dictionaries(
        st.sampled_from(_BOARDS[name]), st.integers(1, 4), min_size=1, max_size=3
    )
    return msgspec.structs.replace(fleet, gpus=tuple(gpus)), draw(demand)


@given(_asked())
def test_no_layout_serves_more(asked: tuple[Fleet, dict[str, int]]) -> None:
    fleet, demand = asked
    found = recommend(fleet, demand)
    by_name = {gpu.name: gpu for gpu in fleet.gpus}
    for one in found.gpus:
        assert one.mode in _modes(by_name[one.gpu])
        assert _fits(by_name[one.gpu], one.mode, Counter(one.new))
    assert all(count <= demand[name] for name, count in found.served.items())
    best = 0
    for chosen in product(*(list(_possible(gpu, demand)) for gpu in fleet.gpus)):
        served = sum(chosen, Counter[str]()) & Counter(demand)
        best = max(best, sum(framebuffer_mib(name) * count for name, count in served.items()))
    assert found.served_mib <= best <= found.bound_mib
    if found.optimal:
        assert found.served_mib == best


def test_both_kinds_of_sharing_are_mixed_over_the_gpus_of_a_node() -> None:
    fleet = _fleet("a100*1", Mode.SAME_SIZE, Mode.SAME_SIZE)
    found = recommend(fleet, {"GRID A100-3-20C": 2, "GRID A100-20C": 2})
    assert {one.mode: dict(one.new) for one in found.gpus} == {
        Mode.MIG_BACKED: {"GRID A100-3-20C": 2},
        Mode.SAME_SIZE: {"GRID A100-20C": 2},
    }
    assert found.optimal


def test_what_is_in_use_in_gpu_instances_stays_and_is_part_of_the_layout() -> None:
    fleet = _fleet("a100*1", Mode.MIG_BACKED)
    held = Vgpu(name="v", profile="GRID A100-3-20C", instance=2, holder="d/x")
    gpu = msgspec.structs.replace(fleet.gpus[0], vgpus=(held,))
    fleet = msgspec.structs.replace(fleet, gpus=(gpu,))
    found = recommend(fleet, {"GRID A100-3-20C": 2, "GRID A100-7-40C": 1})
    [group] = as_groups(found)
    assert (group.mode, group.vgpus) == (Mode.MIG_BACKED, {"GRID A100-3-20C": 2})
    assert (found.served_mib, found.optimal) == (20 * GIB, True)
    time_sliced = recommend(fleet, {"GRID A100-20C": 1})
    assert time_sliced.gpus == ()


def test_a_hundred_gpus_are_divided_as_one_problem() -> None:
    fleet = made_up("25x a100")
    found = recommend(fleet, {"GRID A100-1-5C": 350, "GRID A100-2-10C": 100, "GRID A100-20C": 20})
    assert found.optimal
    assert found.served == found.demand
