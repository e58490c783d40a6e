"""The least moves for MIG-backed vGPUs, against every sequence of moves; what is held stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet import backed
from laneway.core.fleet.fitting import instances_of, instances_with
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Gpu, Node, Vgpu, Vm
from laneway.core.fleet.moves import Moves, Outcome, least_moves
from laneway.core.fleet.moves_again import changed
from laneway.core.fleet.placing import Shape
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, Mode
from laneway.core.ledger.facts import Phase
from laneway.core.mig.profiles import compute_slices, per_instance, serving
from laneway.core.names import vgpu_resource_name
from laneway.core.vgpu.placement import Carried
from laneway.core.vgpu.profiles import Profile, framebuffer_mib

ONE, TWO, THREE, FOUR = (f"GRID A100-{size}" for size in ("1-5C", "2-10C", "3-20C", "4-20C"))
Q24, Q12, Q48, B2 = (
    f"NVIDIA RTX Pro 6000 Blackwell DC-{size}" for size in ("1-24Q", "1-12Q", "2-48Q", "1-2B")
)
BOARDS = {"a100*1": (ONE, TWO, THREE, FOUR), "rtx-pro-6000*1": (Q24, Q12, Q48, B2)}
SLICES = {"a100*1": 7, "rtx-pro-6000*1": 4}
replace = msgspec.structs.replace


def served(profile: str) -> tuple[Profile, GpuInstanceProfile]:
    """A profile, and the kind of GPU instance that it needs."""
    board = next(one for one, names in BOARDS.items() if profile in names)
    found = serving(profile, backed.kinds(made_up(board).gpus[0]))
    assert found is not None
    return found


def instance(kind: GpuInstanceProfile, start: int) -> GpuInstance:
    """Any number does that no other of the GPU has."""
    return GpuInstance(start, kind.name, kind.id, start, kind.size)


def gpu(name: str, node: str, *vgpus: tuple[str, int, str], board: str = "a100*1") -> Gpu:
    """A GPU in the mode MIGBacked; `vgpus`: profile, start of its GPU instance, holder."""
    instances = {start: instance(served(profile)[1], start) for profile, start, _ in vgpus}
    return replace(
        made_up(board).gpus[0],
        name=name,
        node=node,
        mode=Mode.MIG_BACKED,
        ecc=True,
        driver="580.65.05",
        instances=tuple(instances.values()),
        vgpus=tuple(
            Vgpu(name=f"{name}-{number}", profile=profile, instance=start, holder=holder)
            for number, (profile, start, holder) in enumerate(vgpus)
        ),
    )


def fleet(*gpus: Gpu, stopped: Collection[str] = (), fixed: Collection[str] = ()) -> Fleet:
    holders = sorted({one.holder for each in gpus for one in each.vgpus if one.holder})
    vms = tuple(
        Vm(
            name=name,
            phase=Phase.STOPPED if name in stopped else Phase.RUNNING,
            migratable=name not in fixed,
        )
        for name in holders
    )
    nodes = sorted({each.node for each in gpus})
    return Fleet(nodes=tuple(Node(name=one) for one in nodes), gpus=gpus, vms=vms)


def moved(found: Moves) -> list[tuple[str, str]]:
    return [(one.vm, one.legs[0].target) for one in found.moves]


def test_a_vm_leaves_the_place_that_the_wanted_gpu_instance_needs() -> None:
    full = gpu("a", "n1", (ONE, 2, "d/x"), (THREE, 4, "d/y"))
    other = gpu("b", "n2", (THREE, 0, "d/z"), (TWO, 4, "d/w"))
    found = least_moves(fleet(full, other, fixed={"d/y", "d/z", "d/w"}), {FOUR: 1})
    assert moved(found) == [("d/x", "b")]
    assert found.places == ((FOUR, "a"),)
    held = fleet(full, other, fixed={"d/x", "d/y", "d/z", "d/w"})
    assert least_moves(held, {FOUR: 1}).outcome is Outcome.NONE


def test_a_gpu_instance_with_room_takes_vgpus_of_its_size_alone() -> None:
    def full(name: str, node: str, *holders: str) -> Gpu:
        starts = zip((Q48, Q24, Q12), (0, 4, 6), holders, strict=True)
        return gpu(name, node, *starts, board="rtx-pro-6000*1")

    one, other = full("a", "n1", "d/1", "d/2", "d/x"), full("b", "n2", "d/3", "d/4", "d/5")
    assert least_moves(fleet(one), {Q12: 1}).moves == ()
    assert least_moves(fleet(one), {B2: 1}).outcome is Outcome.NONE
    found = least_moves(fleet(one, other, fixed={f"d/{n}" for n in range(1, 6)}), {B2: 1})
    assert (moved(found), found.places) == ([("d/x", "b")], ((B2, "a"),))


def test_mig_backed_and_time_sliced_vgpus_stay_apart() -> None:
    sliced = replace(gpu("s", "n2"), mode=Mode.SAME_SIZE)
    backed_ = gpu("a", "n1", (ONE, 2, "d/x"))
    assert least_moves(fleet(backed_, sliced), {FOUR: 1}).outcome is Outcome.NONE
    assert least_moves(fleet(backed_), {"GRID A100-10C": 1}).outcome is Outcome.NONE
    found = least_moves(fleet(backed_, sliced), {"GRID A100-10C": 1})
    assert (found.moves, found.places) == ((), (("GRID A100-10C", "s"),))


def test_an_unused_vgpu_is_named_where_its_gpu_instance_is_in_the_way() -> None:
    unused = fleet(gpu("a", "n1", (THREE, 0, ""), (TWO, 4, "")))
    assert least_moves(unused, {FOUR: 1}).in_the_way == ("a-0",)
    assert least_moves(unused, {THREE: 1}).in_the_way == ()


def test_nothing_goes_to_a_gpu_whose_instances_are_not_all_known() -> None:
    full = gpu("a", "n1", (THREE, 0, "d/x"), (TWO, 4, "d/y"))
    known = gpu("b", "n2", (ONE, 6, "d/z"))
    odd = replace(known, instances=(instance(served(ONE)[1], 5),))
    assert least_moves(fleet(full, known), {FOUR: 1}).places == ((FOUR, "b"),)
    assert least_moves(fleet(full, odd), {FOUR: 1}).outcome is Outcome.NONE


def test_a_vm_moves_also_where_that_alone_has_another_one_take_a_better_place() -> None:
    """An agent puts d/x into the first place, where it is in the way, or where d/y was."""
    there = fleet(
        gpu("a", "n1", (ONE, 0, "d/x")),
        gpu("b", "n2", (ONE, 6, "d/y")),
        gpu("c", "n3", (TWO, 0, "d/1"), (TWO, 2, "d/2"), (TWO, 4, "d/3")),
        stopped={"d/x", "d/y"},
        fixed={"d/1", "d/2", "d/3"},
    )
    not_c = tuple(
        replace(node, labels={} if node.name == "n3" else {"zone": "a"}) for node in there.nodes
    )
    vms = tuple(replace(vm, selector={"zone": "a"} if vm.name == "d/x" else {}) for vm in there.vms)
    there = replace(there, nodes=not_c, vms=vms)
    assert least_moves(there, {FOUR: 2}, limit=1).outcome is Outcome.NONE
    assert moved(least_moves(there, {FOUR: 2})) == [("d/y", "c"), ("d/x", "b")]


def test_moves_do_not_hold_once_the_place_is_taken() -> None:
    full = gpu("a", "n1", (ONE, 2, "d/x"))
    there = fleet(full, gpu("b", "n2", (FOUR, 0, "d/y")), fixed={"d/y"})
    found = least_moves(there, {FOUR: 1})
    assert changed(there, found.moves, found.places) == ()
    taken = gpu("b", "n2", (FOUR, 0, "d/y"), *((ONE, at, f"d/{at}") for at in (4, 5, 6)))
    [why] = changed(replace(there, gpus=(full, taken)), found.moves, found.places)
    assert why == "there is no room for it any more on b, a"


def test_one_more_vgpu_needs_a_gpu_instance_where_none_has_room() -> None:
    there = gpu("a", "n1", (THREE, 0, "d/x"), (TWO, 4, ""))
    assert instances_of(there) == {"3g.20gb": 1, "2g.10gb": 1}
    assert instances_with(there, ONE) == {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}
    assert instances_with(there, THREE) is None
    left = replace(there, vgpus=there.vgpus[:1])
    assert instances_with(left, TWO) == instances_of(left)
    assert instances_with(left, THREE) == {"3g.20gb": 2}


# ------------------------------------------------------------------------------ every sequence

Held = tuple[tuple[str, Carried], ...]
Position = tuple[tuple[Shape, Held], ...]
"""Of each GPU what is on it, and the same by holder."""


@st.composite
def asked(draw: st.DrawFn) -> tuple[Fleet, dict[str, int]]:
    """GPUs as an agent fills them, from which some have left, and what is wanted."""
    board = draw(st.sampled_from(sorted(BOARDS)))
    names = BOARDS[board]
    gpus: list[Gpu] = []
    for number in range(draw(st.integers(2, 3))):
        empty = gpu(f"g{number}", f"n{draw(st.integers(0, 2))}", board=board)
        shape = backed.shape_of(empty)
        for profile in draw(st.lists(st.sampled_from(names), max_size=6)):
            taken = backed.take(shape, vgpu_resource_name(profile))
            shape = taken.shape if taken else shape
        vgpus = [
            Vgpu(
                name=f"g{number}-{index}",
                profile=one.profile,
                instance=one.start,
                holder=f"d/{number}-{index}" if what == "held" else "",
            )
            for index, one in enumerate(shape.kept)
            if (what := draw(st.sampled_from(["held", "held", "unused", "gone"]))) != "gone"
        ]
        left = tuple(replace(one, id=one.start) for one in shape.instances)
        gpus.append(replace(empty, vgpus=tuple(vgpus), instances=left))
    holders = sorted(one.holder for each in gpus for one in each.vgpus if one.holder)
    some = st.sets(st.sampled_from(holders)) if holders else st.just(set[str]())
    stopped = draw(some)
    wanted = st.dictionaries(st.sampled_from(names), st.integers(1, 2), min_size=1, max_size=2)
    return fleet(*gpus, stopped=stopped, fixed=draw(some) - stopped), draw(wanted)


def holding(one: Gpu) -> tuple[Shape, Held]:
    held = tuple(
        (vgpu.holder, Carried(vgpu.profile, vgpu.instance)) for vgpu in one.vgpus if vgpu.holder
    )
    return with_held(backed.shape_of(one), held), held


def with_held(shape: Shape, held: Held) -> Shape:
    return replace(shape, kept=tuple(one for _, one in held), free=())


def after_one(there: Fleet, now: Position, gone: frozenset[str]) -> Iterator[tuple[Position, str]]:
    """Every position after one more VM has moved."""
    vms = {vm.name: vm for vm in there.vms}
    for source, (shape, held) in enumerate(now):
        for holder, carried in held:
            runs = vms[holder].phase is Phase.RUNNING
            if holder in gone or (runs and not vms[holder].migratable):
                continue
            for target, other in enumerate(there.gpus):
                far = there.gpus[source].node != other.node if runs else source != target
                if not far:
                    continue
                taken = backed.take(now[target][0], vgpu_resource_name(carried.profile))
                if taken is not None:
                    left = tuple(pair for pair in held if pair[0] != holder)
                    more = (*now[target][1], (holder, Carried(carried.profile, taken.start)))
                    new = list(now)
                    new[source] = with_held(shape, left), left
                    new[target] = with_held(taken.shape, more), more
                    yield tuple(new), holder


def all_have_places(held: tuple[Carried, ...], wanted: tuple[str, ...], slices: int) -> bool:
    """Whether each of these has a place on one GPU; every choice of places is tried."""
    if not wanted:
        return True
    vgpu, kind = served(wanted[0])
    there = {one.start: served(one.profile)[1] for one in held}
    for start in kind.starts:
        inside = [framebuffer_mib(one.profile) for one in held if one.start == start]
        if inside:
            possible = (
                there[start].name == kind.name
                and {*inside} == {vgpu.framebuffer_mib}
                and len(inside) < per_instance(vgpu, kind)
            )
        else:
            every = [*((at, one) for at, one in there.items() if at is not None), (start, kind)]
            units = [at for first, one in every for at in range(first, first + one.size)]
            possible = (
                len(units) == len({*units})
                and sum(compute_slices(one.name) for _, one in every) <= slices
                and sum(one.name == kind.name for _, one in every) <= kind.total
            )
        if possible and all_have_places((*held, Carried(wanted[0], start)), wanted[1:], slices):
            return True
    return False


def fits(now: Position, wanted: Mapping[str, int], slices: int) -> bool:
    def go(left: tuple[str, ...], more: tuple[tuple[str, ...], ...]) -> bool:
        if not left:
            return all(
                all_have_places(shape.kept, new, slices)
                for (shape, _), new in zip(now, more, strict=True)
            )
        return any(
            go(left[1:], (*more[:at], (*more[at], left[0]), *more[at + 1 :]))
            for at in range(len(more))
        )

    return go(tuple(Counter(wanted).elements()), tuple(() for _ in now))


def by_trying_all(there: Fleet, wanted: Mapping[str, int], limit: int) -> int | None:
    slices = next(SLICES[board] for board, names in BOARDS.items() if {*wanted} <= {*names})
    positions = {(tuple(map(holding, there.gpus)), frozenset[str]())}
    for count in range(limit + 1):
        if any(fits(now, wanted, slices) for now, _ in positions):
            return count
        positions = {
            (now, gone | {holder})
            for before, gone in positions
            for now, holder in after_one(there, before, gone)
        }
    return None


@given(asked())
def test_the_number_of_moves_is_the_least_of_all_sequences(
    question: tuple[Fleet, dict[str, int]],
) -> None:
    there, wanted = question
    found = least_moves(there, wanted, limit=2)
    least = by_trying_all(there, wanted, 2)
    if least is None:
        assert found.outcome is Outcome.NONE
    else:
        assert found.outcome is Outcome.FOUND
        assert len(found.moves) == least
