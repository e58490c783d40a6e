"""Whether machines of several pools fit together."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.machine_pools.packing import Budget, Fit, Kind, pack

Free = Mapping[str, Mapping[str, int]]


def test_machines_that_are_alike_fit_wherever_the_scheduler_puts_them() -> None:
    free = {"n1": {"gpu": 3, "cpu": 8}, "n2": {"gpu": 5, "cpu": 2}}
    assert pack([Kind("a", 2, {"gpu": 2, "cpu": 2})], free).fit is Fit.YES
    assert pack([Kind("a", 3, {"gpu": 2, "cpu": 2})], free) == (Fit.NO, ("a",), ())


def test_a_pool_may_be_bound_to_nodes() -> None:
    free = {"n1": {"gpu": 3}, "n2": {"gpu": 3}}
    assert pack([Kind("a", 4, {"gpu": 1}, frozenset({"n1"}))], free).short == ("a",)


def test_pools_that_compete() -> None:
    free = {"n1": {"gpu": 1, "disk": 1}, "n2": {"gpu": 1}}
    both = [Kind("a", 1, {"gpu": 1}), Kind("b", 1, {"gpu": 1, "disk": 1})]
    assert pack(both, free) == (Fit.DEPENDS, (), (("a", "b"),))
    assert pack([Kind("a", 2, {"gpu": 1}), both[1]], free) == (Fit.NO, (), (("a", "b"),))
    assert pack(both, {"n1": {"gpu": 2, "disk": 1}}).fit is Fit.YES


def test_ten_thousand_machines_are_answered() -> None:
    free = {f"n{number}": {"gpu": 16, "cpu": 64} for number in range(100)}
    kinds = [Kind("a", 10_000, {"gpu": 1}), Kind("b", 3, {"gpu": 2, "cpu": 3})]
    assert pack(kinds, free).short == ("a",)
    kinds[0] = Kind("a", 1_500, {"gpu": 1, "cpu": 1})
    assert pack(kinds, free).fit in Fit


def test_machines_that_are_few_for_their_nodes_are_no_question() -> None:
    free = {f"n{number}": {"cpu": 64, "memory": 256} for number in range(8)}
    kinds = [Kind(f"{size}", 5, {"cpu": size, "memory": 2 * size}) for size in range(1, 8)]
    assert pack(kinds, free, Budget(0)).fit is Fit.YES


def test_more_ways_than_are_compared_depend() -> None:
    """A guest cluster of one person delays the answer to no other."""
    free = {f"n{number}": {"cpu": 60, "memory": 97} for number in range(8)}
    kinds = [Kind(f"{size}", 13, {"cpu": size, "memory": 11 - size}) for size in range(3, 9)]
    budget = Budget()
    assert pack(kinds, free, budget).fit is Fit.DEPENDS
    assert budget.left < 0
    assert (
        pack(
            [Kind(f"{n}", 1, {"cpu": 1, f"{n}": 1}) for n in range(1_100)],
            {
                "n1": {"cpu": 1_099, **{f"{n}": 1 for n in range(1_100)}},
                "n2": {"cpu": 1, **{f"{n}": 1 for n in range(1_100)}},
            },
        ).fit
        is Fit.DEPENDS
    )


resources = st.sampled_from(["gpu", "nic"])
kinds = st.lists(
    st.builds(
        Kind,
        st.uuids().map(str),
        st.integers(1, 3),
        st.dictionaries(resources, st.integers(1, 2), min_size=1, max_size=2),
        st.none() | st.frozensets(st.sampled_from(["n0", "n1", "n2"])),
    ),
    min_size=1,
    max_size=3,
)
nodes = st.dictionaries(
    st.sampled_from(["n0", "n1", "n2"]),
    st.dictionaries(resources, st.integers(0, 5)),
    min_size=1,
    max_size=3,
)


@given(kinds, nodes, st.randoms(use_true_random=False))
def test_the_answer_holds_whatever_the_scheduler_does(
    wanted: list[Kind], free: Free, luck: random.Random
) -> None:
    answer = pack(wanted, free)
    started = all(starts(wanted, free, luck) for _ in range(5))
    if answer.fit is Fit.YES:
        assert started
    if answer.fit is Fit.NO:
        assert not any(starts(wanted, free, luck) for _ in range(5))


@given(kinds, nodes)
def test_it_depends_only_where_it_does(wanted: list[Kind], free: Free) -> None:
    ends = set(outcomes(tuple(kind.machines for kind in wanted), wanted, free))
    expected = Fit.YES if ends == {True} else Fit.NO if ends == {False} else Fit.DEPENDS
    assert pack(wanted, free).fit is expected


def starts(wanted: list[Kind], free: Free, luck: random.Random) -> bool:
    """Whether all machines start where each goes to any node that has room."""
    left = {node: dict(there) for node, there in free.items()}
    machines = [kind for kind in wanted for _ in range(kind.machines)]
    luck.shuffle(machines)
    for kind in machines:
        places = [node for node in left if fits(kind, node, left[node])]
        if not places:
            return False
        take(kind, left[luck.choice(places)])
    return True


def outcomes(open_: tuple[int, ...], wanted: list[Kind], free: Free) -> list[bool]:
    """How every order and choice ends: whether all started."""
    seen: dict[object, list[bool]] = {}

    def visit(open_: tuple[int, ...], free: Free) -> list[bool]:
        state = open_, tuple((node, tuple(sorted(there.items()))) for node, there in free.items())
        if state not in seen:
            ends, stuck = set(), False
            for one, kind in enumerate(wanted):
                if not open_[one]:
                    continue
                places = [node for node in free if fits(kind, node, free[node])]
                stuck |= not places
                for node in places:
                    left = {name: dict(there) for name, there in free.items()}
                    take(kind, left[node])
                    ends |= set(visit((*open_[:one], open_[one] - 1, *open_[one + 1 :]), left))
            seen[state] = [True] if not any(open_) else [False] if stuck else list(ends)
        return seen[state]

    return visit(open_, free)


def fits(kind: Kind, node: str, there: Mapping[str, int]) -> bool:
    allowed = kind.nodes is None or node in kind.nodes
    return allowed and all(there.get(name, 0) >= need for name, need in kind.needs.items() if need)


def take(kind: Kind, there: dict[str, int]) -> None:
    for name, need in kind.needs.items():
        if need:
            there[name] -= need
