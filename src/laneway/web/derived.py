"""What is worked out from the objects of a cache, kept in step as they change.

A cache may have a hundred thousand objects and a page is drawn again and again, so only what has
changed since the last look is worked out again; sums and selections follow from the differences.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from laneway.kube.resource import Key, T
from laneway.kube.store import Store

V = TypeVar("V")


class _Dated(Protocol):
    @property
    def moment(self) -> str:
        """When it was, as Kubernetes writes it."""


D = TypeVar("D", bound=_Dated)


class _News(Generic[T]):
    """What has changed in a store since the last look; at first, and after long, all of it."""

    def __init__(self, store: Store[T]) -> None:
        self.store = store
        self._changes = -1

    def changed(self) -> set[Key] | None:
        """Keys; None: anything may have."""
        seen, self._changes = self._changes, self.store.changes
        return set() if seen == self._changes else self.store.changed_since(seen)


class Derived(Generic[T, V]):
    """A fact about each object that gives one."""

    def __init__(
        self,
        store: Store[T],
        of: Callable[[T], V | None],
        differs: Callable[[Key, V | None, V | None], None] | None = None,
    ) -> None:
        """`differs` is called with what an object came to before, and comes to now."""
        self.facts: dict[Key, V] = {}
        self._news = _News(store)
        self._of = of
        self._differs = differs

    def refresh(self) -> Mapping[Key, V]:
        """The facts as of now."""
        store, changed = self._news.store, self._news.changed()
        for key in store.keys() | self.facts.keys() if changed is None else changed:
            obj = store.get(key.name, key.namespace)
            self._put(key, None if obj is None else self._of(obj))
        return self.facts

    def _put(self, key: Key, after: V | None) -> None:
        before = self.facts.get(key)
        if before == after:
            return
        if after is None:
            del self.facts[key]
        else:
            self.facts[key] = after
        if self._differs is not None:
            self._differs(key, before, after)


class Newest(Generic[T, D]):
    """What happened last to objects: of each at most one thing, of all only a few."""

    def __init__(self, store: Store[T], of: Callable[[T], D | None], most: int) -> None:
        self._news = _News(store)
        self._of = of
        self._most = most
        self._found: dict[Key, D] = {}
        self._since = ""
        """Everything that happened later is in `_found`."""

    def refresh(self) -> list[D]:
        """The newest first."""
        store, changed = self._news.store, self._news.changed()
        if changed is None:
            self._look()
        for key in changed or ():
            self._found.pop(key, None)
            obj = store.get(key.name, key.namespace)
            one = None if obj is None else self._of(obj)
            if one is not None and one.moment >= self._since:
                self._found[key] = one
        if len(self._found) < self._most and self._since:
            self._look()
        elif len(self._found) > 4 * self._most:
            self._keep(iter(self._found.items()))
        return [one for _, one in self._keep_order()[: self._most]]

    def _look(self) -> None:
        """At everything."""
        self._since = ""
        objects = self._news.store
        self._keep(
            (Key(one.metadata.namespace, one.metadata.name), found)
            for one in objects
            if (found := self._of(one)) is not None
        )

    def _keep(self, found: Iterator[tuple[Key, D]]) -> None:
        kept = heapq.nlargest(2 * self._most, found, key=_moment)
        self._found = dict(kept)
        if len(kept) == 2 * self._most:
            self._since = kept[-1][1].moment

    def _keep_order(self) -> list[tuple[Key, D]]:
        return sorted(self._found.items(), key=_moment, reverse=True)


def _moment(item: tuple[Key, _Dated]) -> tuple[str, Key]:
    return item[1].moment, item[0]


class Once(Generic[V]):
    """What is worked out from certain objects, and again only from others."""

    def __init__(self) -> None:
        self._known: tuple[tuple[object, ...], V] | None = None

    def get(self, make: Callable[[], V], *of: object) -> V:
        """What `make` gives, or gave for these very objects."""
        known = self._known
        if known is not None and all(a is b for a, b in zip(known[0], of, strict=True)):
            return known[1]
        made = make()
        self._known = of, made
        return made
