"""What is kept in step with a store is what a look at all of its objects would give."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.api import ObjectMeta
from laneway.kube.resource import Key, key_of
from laneway.kube.store import Store
from laneway.web.derived import Derived, Newest, Once

MOST = 2


class Thing(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    colour: str
    moment: str


NAMES = "abcdefghijklmnop"
things = st.builds(
    lambda name, colour, minute: Thing(
        ObjectMeta(name=name), colour, f"2026-01-01T00:{minute:02}:00Z" if minute else ""
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["", "red", "blue"]),
    st.integers(0, 30),
)
changes = st.one_of(things, things, st.sampled_from(NAMES))
histories = st.lists(st.tuples(changes, st.booleans()), min_size=30, max_size=90)
"""Objects that are put, names that are dropped, and whether all is compared then."""
History = list[tuple[Thing | str, bool]]


@given(histories)
def test_facts_and_sums_follow_every_change(history: History) -> None:
    store: Store[Thing] = Store()
    counts: Counter[str] = Counter()

    def differs(_key: Key, before: str | None, after: str | None) -> None:
        counts.update({before: -1} if before else {})
        counts.update({after: 1} if after else {})

    derived = Derived(store, lambda one: one.colour or None, differs)
    for change, looks in history:
        _apply(store, change)
        if looks:
            expected = {key_of(one): one.colour for one in store if one.colour}
            assert derived.refresh() == expected
            assert +counts == Counter(expected.values())


@given(histories)
def test_the_newest_are_those_of_a_look_at_everything(history: History) -> None:
    store: Store[Thing] = Store()
    newest = Newest(store, lambda one: one.moment, MOST)
    for change, looks in history:
        _apply(store, change)
        if looks:
            dated = [(one.moment, one.metadata.name) for one in store if one.moment]
            found = [(one.moment, one.metadata.name) for one in newest.refresh()]
            assert found == sorted(dated, reverse=True)[:MOST]


def test_what_is_worked_out_once_is_worked_out_again_from_other_objects() -> None:
    once: Once[object] = Once()
    ledger = object()
    first = once.get(object, ledger)
    assert once.get(object, ledger) is first
    assert once.get(object, object()) is not first


def _apply(store: Store[Thing], change: Thing | str) -> None:
    if isinstance(change, Thing):
        store.put(change)
    else:
        store.drop(Key("", change))
