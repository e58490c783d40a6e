"""The least number of moves after which wanted vGPUs fit, against every sequence of moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet import board
from laneway.core.fleet.model import Device, Fleet, Gpu, Node, Vgpu, Vm
from laneway.core.fleet.movable import How
from laneway.core.fleet.moves import Moves, Outcome, least_moves
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Phase
from laneway.core.vgpu.placement import Carried, arrange

Q2, Q4, Q8, Q16 = (f"NVIDIA A2-{size}Q" for size in (2, 4, 8, 16))
NAMES = (Q2, Q4, Q8, Q16)


def gpu(name: str, node: str, mode: Mode, *vgpus: tuple[str, str]) -> Gpu:
    """A GPU of 16 GiB with vGPUs, `(profile, holder)`, where the driver puts them."""
    empty = Gpu(
        name=name,
        node=node,
        address="0000:08:00.0",
        device="25b6",
        mode=mode,
        ecc=True,
        driver="580.65.05",
        profiles=NAMES,
    )
    carried: list[Vgpu] = []
    for number, (profile, holder) in enumerate(vgpus):
        there = [Carried(one.profile, one.slot) for one in carried]
        placed = arrange(board.card(empty), there, {profile: 1}, mixed=mode is Mode.MIXED_SIZE)
        if placed is not None:
            slot = placed[0].start
            carried.append(Vgpu(name=f"{name}-{number}", profile=profile, slot=slot, holder=holder))
    return msgspec.structs.replace(empty, vgpus=tuple(carried))


def fleet(*gpus: Gpu, stopped: tuple[str, ...] = (), fixed: tuple[str, ...] = ()) -> Fleet:
    holders = {one.holder for each in gpus for one in each.vgpus if one.holder}
    vms = [
        Vm(
            name=name,
            phase=Phase.STOPPED if name in stopped else Phase.RUNNING,
            migratable=name not in fixed,
        )
        for name in sorted(holders)
    ]
    nodes = sorted({each.node for each in gpus})
    return Fleet(nodes=tuple(Node(name=one) for one in nodes), gpus=gpus, vms=tuple(vms))


def test_more_than_empty_gpus_hold_is_no_without_a_search() -> None:
    gpus = fleet(*(gpu(f"g{number}", f"n{number}", Mode.SAME_SIZE) for number in range(4)))

    assert least_moves(gpus, {Q8: 9}, effort=1).outcome is Outcome.NONE
    assert least_moves(gpus, {Q8: 8}).outcome is Outcome.FOUND


def moved(found: Moves) -> list[tuple[str, str]]:
    return [(one.vm, one.legs[0].target) for one in found.moves]


def test_no_move_where_there_is_room() -> None:
    found = least_moves(fleet(gpu("a", "n1", Mode.SAME_SIZE)), {Q16: 1})
    assert (found.outcome, found.moves) == (Outcome.FOUND, ())
    assert found.places == ((Q16, "a"),)


def test_one_running_vm_moves_to_another_node() -> None:
    there = fleet(
        gpu("a", "n1", Mode.SAME_SIZE, (Q8, "d/x")),
        gpu("b", "n1", Mode.SAME_SIZE, (Q8, "d/fixed")),
        gpu("c", "n2", Mode.SAME_SIZE, (Q8, "d/other")),
        fixed=("d/fixed", "d/other"),
    )
    found = least_moves(there, {Q16: 1})
    assert found.outcome is Outcome.FOUND
    assert moved(found) == [("d/x", "c")]
    assert found.places == ((Q16, "a"),)


def test_a_stopped_vm_may_start_on_another_gpu_of_its_node() -> None:
    gpus = (
        gpu("a", "n1", Mode.SAME_SIZE, (Q8, "d/x")),
        gpu("b", "n1", Mode.SAME_SIZE, (Q8, "d/y")),
    )
    assert least_moves(fleet(*gpus), {Q16: 1}).outcome is Outcome.NONE
    found = least_moves(fleet(*gpus, stopped=("d/x",), fixed=("d/y",)), {Q16: 1})
    assert moved(found) == [("d/x", "b")]
    assert found.moves[0].how is How.STOPPED


def test_what_is_not_known_to_be_migratable_stays_and_is_told() -> None:
    gpus = (
        gpu("a", "n1", Mode.SAME_SIZE, (Q8, "d/x"), (Q8, "pod d/p")),
        gpu("b", "n2", Mode.SAME_SIZE, (Q8, "d/y")),
    )
    there = Fleet(
        nodes=(Node(name="n1"), Node(name="n2")),
        gpus=gpus,
        devices=(Device(name="u", node="n2", resource="usb", holder="d/y"),),
        vms=(Vm(name="d/x"), Vm(name="d/y", migratable=True), Vm(name="pod d/p")),
    )
    found = least_moves(there, {Q16: 1})
    assert (found.outcome, found.proved) == (Outcome.NONE, found.limit)
    assert found.stay == {
        "d/x": "it is not known whether it is live-migratable",
        "d/y": "it has devices besides vGPUs",
        "pod d/p": "a pod cannot be moved",
    }


def test_a_vm_without_another_gpu_to_go_to_is_told() -> None:
    gpus = (
        gpu("a", "n1", Mode.SAME_SIZE, (Q8, "d/x"), (Q8, "d/y")),
        gpu("b", "n2", Mode.SAME_SIZE, (Q8, "pod d/p"), (Q8, "d/z")),
    )
    there = Fleet(
        nodes=(Node(name="n1", labels={"host": "1"}), Node(name="n2")),
        gpus=gpus,
        vms=(
            Vm(name="d/x", phase=Phase.STOPPED, selector={"host": "1"}),
            Vm(name="d/y", phase=Phase.STOPPED),
            Vm(name="d/z", phase=Phase.STOPPED),
            Vm(name="pod d/p"),
        ),
    )
    assert least_moves(there, {Q16: 1}).stay == {
        "d/x": "its node selector keeps it from other GPUs",
        "pod d/p": "a pod cannot be moved",
    }
    alone = msgspec.structs.replace(there, gpus=gpus[:1])
    assert least_moves(alone, {Q16: 1}).stay == {
        "d/x": "no other GPU can carry its vGPUs",
        "d/y": "no other GPU can carry its vGPUs",
    }


def test_a_vm_with_two_vgpus_moves_as_one() -> None:
    there = fleet(
        gpu("a", "n1", Mode.SAME_SIZE, (Q8, "d/x")),
        gpu("b", "n1", Mode.SAME_SIZE, (Q8, "d/x")),
        gpu("c", "n2", Mode.SAME_SIZE, (Q8, "d/y")),
        gpu("d", "n2", Mode.SAME_SIZE, (Q8, "d/z")),
    )
    found = least_moves(there, {Q16: 2})
    assert found.outcome is Outcome.FOUND
    assert len(found.moves) == 1
    assert len(found.moves[0].legs) == 2


def test_unused_vgpus_are_room_and_are_named_where_they_are_in_the_way() -> None:
    one = gpu("a", "n1", Mode.SAME_SIZE, (Q8, ""), (Q8, ""))
    assert least_moves(fleet(one), {Q16: 1}).in_the_way == ("a-0", "a-1")
    assert least_moves(fleet(one), {Q8: 2}).in_the_way == ()


def test_a_search_that_ends_early_does_not_say_that_there_is_none() -> None:
    gpus = [gpu(f"g{n}", f"n{n}", Mode.SAME_SIZE, (Q8, f"d/{n}")) for n in range(6)]
    found = least_moves(fleet(*gpus), {Q16: 4}, effort=40)
    assert found.outcome is Outcome.UNDECIDED
    assert found.proved < found.limit


# ------------------------------------------------------------------------------ every sequence

Loads = tuple[tuple[tuple[str, Carried], ...], ...]


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    holders = iter(range(100))
    gpus: list[Gpu] = []
    for number in range(draw(st.integers(2, 4))):
        mode = draw(st.sampled_from([Mode.SAME_SIZE, Mode.MIXED_SIZE]))
        profiles = draw(st.lists(st.sampled_from(NAMES[:3]), max_size=3))
        vgpus = [(one, f"d/vm{next(holders)}") for one in profiles]
        whole = gpu(f"g{number}", f"n{draw(st.integers(0, 2))}", mode, *vgpus)
        kept = draw(st.sets(st.sampled_from(range(4))))
        left = tuple(one for index, one in enumerate(whole.vgpus) if index not in kept)
        gpus.append(msgspec.structs.replace(whole, vgpus=left))
    names = sorted(one.holder for each in gpus for one in each.vgpus)
    stopped = draw(st.sets(st.sampled_from(names))) if names else set()
    fixed = draw(st.sets(st.sampled_from(names))) if names else set()
    return fleet(*gpus, stopped=tuple(stopped), fixed=tuple(fixed - stopped))


def after_one(there: Fleet, loads: Loads, gone: frozenset[str]) -> Iterator[tuple[Loads, str]]:
    """Every position after one more VM has moved."""
    vms = {vm.name: vm for vm in there.vms}
    for source, load in enumerate(loads):
        for holder, carried in load:
            vm = vms[holder]
            if holder in gone or not (vm.phase is Phase.STOPPED or vm.migratable):
                continue
            for target, other in enumerate(there.gpus):
                mine = there.gpus[source]
                far = mine.node != other.node if vm.phase is Phase.RUNNING else source != target
                placed = far and arrange(
                    board.card(other),
                    [one for _, one in loads[target]],
                    {carried.profile: 1},
                    mixed=board.is_mixed(other),
                )
                if placed:
                    new = list(loads)
                    new[source] = tuple(pair for pair in load if pair[0] != holder)
                    at = Carried(carried.profile, placed[0].start)
                    new[target] = (*loads[target], (holder, at))
                    yield tuple(new), holder


def fits(there: Fleet, loads: Loads, wanted: Mapping[str, int]) -> bool:
    items = list(Counter(wanted).elements())

    def go(index: int, more: tuple[Counter[str], ...]) -> bool:
        if index == len(items):
            return all(
                arrange(board.card(each), [one for _, one in load], new, mixed=board.is_mixed(each))
                is not None
                for each, load, new in zip(there.gpus, loads, more, strict=True)
            )
        return any(
            go(index + 1, (*more[:at], more[at] + Counter([items[index]]), *more[at + 1 :]))
            for at in range(len(more))
        )

    return go(0, tuple(Counter() for _ in there.gpus))


def by_trying_all(there: Fleet, wanted: Mapping[str, int], limit: int) -> int | None:
    start: Loads = tuple(
        tuple((one.holder, Carried(one.profile, one.slot)) for one in each.vgpus)
        for each in there.gpus
    )
    positions = {(start, frozenset[str]())}
    for count in range(limit + 1):
        if any(fits(there, loads, wanted) for loads, _ in positions):
            return count
        positions = {
            (loads, gone | {holder})
            for before, gone in positions
            for loads, holder in after_one(there, before, gone)
        }
    return None


@given(fleets(), st.dictionaries(st.sampled_from(NAMES), st.integers(1, 2), min_size=1, max_size=2))
def test_the_number_of_moves_is_the_least_of_all_sequences(
    there: Fleet, wanted: dict[str, int]
) -> None:
    found = least_moves(there, wanted, limit=2)
    least = by_trying_all(there, wanted, 2)
    if least is None:
        assert found.outcome is Outcome.NONE
    else:
        assert found.outcome is Outcome.FOUND
        assert len(found.moves) == least
