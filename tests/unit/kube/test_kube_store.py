"""The indexed store against a model that searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from laneway.api import ObjectMeta
from laneway.kube.resource import Key
from laneway.kube.store import Store


@dataclass
class Part:
    metadata: ObjectMeta
    colours: list[str]
    size: int


KEYS = st.builds(Key, st.sampled_from(["", "x"]), st.sampled_from("abc"))
COLOURS = st.lists(st.sampled_from(["red", "green", "blue"]), max_size=4)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store: Store[Any] = Store(
            {"colour": lambda part: part.colours, "size": lambda part: [part.size]}
        )
        self.model: dict[Key, tuple[Part, set[str], int]] = {}

    @rule(key=KEYS, colours=COLOURS, size=st.integers(0, 2))
    def put(self, key: Key, colours: list[str], size: int) -> None:
        part = Part(ObjectMeta(name=key.name, namespace=key.namespace), colours, size)
        old = self.store.put(part)
        assert old is self.model.get(key, (None,))[0]
        self.model[key] = (part, set(colours), size)

    @rule(key=KEYS)
    def drop(self, key: Key) -> None:
        assert self.store.drop(key) is self.model.pop(key, (None,))[0]

    @rule(key=KEYS)
    def change_in_place(self, key: Key) -> None:
        """A careless caller; the indexes must not be left with what cannot be taken out."""
        if key in self.model:
            self.model[key][0].colours.append("mud")

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.store.keys() == set(self.model)
        assert len(self.store) == len(self.model)
        for key, (part, _, _) in self.model.items():
            assert self.store.get(key.name, key.namespace) is part
        colours = {colour for _, held, _ in self.model.values() for colour in held}
        assert self.store.values("colour") == colours
        assert self.store.values("size") == {size for _, _, size in self.model.values()}
        for colour in ["red", "green", "blue", "mud"]:
            found = {id(part) for part in self.store.by("colour", colour)}
            assert list(self.store.each("colour", colour)) == self.store.by("colour", colour)
            assert found == {id(it) for it, held, _ in self.model.values() if colour in held}


TestStore = StoreMachine.TestCase


def test_an_indexer_that_fails_leaves_the_store_as_it_was() -> None:
    store: Store[Any] = Store({"size": lambda part: [10 // part.size]})
    good = Part(ObjectMeta(name="a"), [], 5)
    store.put(good)

    with pytest.raises(ZeroDivisionError):
        store.put(Part(ObjectMeta(name="a"), [], 0))

    assert store.get("a") is good
    assert store.by("size", 2) == [good]


def test_what_changed_is_reported_as_far_as_it_is_remembered() -> None:
    store: Store[Any] = Store()
    a, b = (Part(ObjectMeta(name=name), [], 5) for name in "ab")
    store.put(a)
    before = store.changes
    assert store.changed_since(before) == set()
    store.put(b)
    store.drop(Key("", "a"))
    store.put(b)
    assert store.changed_since(before) == {Key("", "a"), Key("", "b")}
    assert store.changed_since(store.changes - 1) == {Key("", "b")}
    assert store.changed_since(store.changes + 1) is None
    for _ in range(5000):
        store.put(a)
    assert store.changed_since(before) is None
