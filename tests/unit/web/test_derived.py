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

MOST = 3


class Thing(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    colour: str
    moment: str


things = st.builds(
    lambda name, colour, moment: Thing(ObjectMeta(name=name), colour, moment),
    st.sampled_from("abcdefghijklmnopqrst"),
    st.sampled_from(["", "red", "blue"]),
    st.sampled_from(["", *(f"2026-01-01T00:{minute:02}:00Z" for minute in range(30))]),
)
histories = st.lists(st.one_of(things, st.sampled_from("abcdefghijklmnopqrst"), st.none()))
"""Objects that are put, names that are dropped, and looks in between."""


@given(histories)
def test_facts_and_sums_follow_every_change(history: list[Thing | str | None]) -> None:
    store: Store[Thing] = Store()
    counts: Counter[str] = Counter()

    def differs(_key: Key, before: str | None, after: str | None) -> None:
        counts.update({before: -1} if before else {})
        counts.update({after: 1} if after else {})

    derived = Derived(store, lambda one: one.colour or None, differs)
    for change in [*history, None]:
        if change is None:
            expected = {key_of(one): one.colour for one in store if one.colour}
            assert derived.refresh() == expected
            assert +counts == Counter(expected.values())
        else:
            _apply(store, change)


@given(histories)
def test_the_newest_are_those_of_a_look_at_everything(history: list[Thing | str | None]) -> None:
    store: Store[Thing] = Store()
    newest = Newest(store, lambda one: one.moment, MOST)
    for change in [*history, None]:
        if change is None:
            dated = [(one.moment, one.metadata.name) for one in store if one.moment]
            found = [(one.moment, one.metadata.name) for one in newest.refresh()]
            assert found == sorted(dated, reverse=True)[:MOST]
        else:
            _apply(store, change)


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
