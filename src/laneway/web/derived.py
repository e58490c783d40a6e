"""What is worked out from the objects of a cache, kept in step as they change.

A cache may have a hundred thousand objects and a page is drawn again and again, so only what has
changed since the last look is worked out again; sums and selections follow from the differences.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from laneway.kube.resource import Key, T, key_of
from laneway.kube.store import Store

V = TypeVar("V")


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


class Newest(Generic[T]):
    """The objects to which something happened last; only a few are kept."""

    def __init__(self, store: Store[T], moment: Callable[[T], str], most: int) -> None:
        """`moment`: when it was, as Kubernetes writes it; empty for never."""
        self._news = _News(store)
        self._moment = moment
        self._most = most
        self._found: dict[Key, str] = {}
        self._since = ""
        """Everything that happened later is in `_found`."""

    def refresh(self) -> list[T]:
        """The newest first."""
        store, changed = self._news.store, self._news.changed()
        if changed is None:
            self._look()
        for key in changed or ():
            self._found.pop(key, None)
            obj = store.get(key.name, key.namespace)
            moment = "" if obj is None else self._moment(obj)
            if moment and moment >= self._since:
                self._found[key] = moment
        if len(self._found) < self._most and self._since:
            self._look()
        elif len(self._found) > 4 * self._most:
            self._keep(self._found.items())
        newest = heapq.nlargest(self._most, self._found.items(), key=_moment)
        objects = (store.get(key.name, key.namespace) for key, _ in newest)
        return [obj for obj in objects if obj is not None]

    def _look(self) -> None:
        """At everything."""
        self._since = ""
        of = self._moment
        every = ((key_of(one), of(one)) for one in self._news.store)
        self._keep((key, moment) for key, moment in every if moment)

    def _keep(self, found: Iterable[tuple[Key, str]]) -> None:
        kept = heapq.nlargest(2 * self._most, found, key=_moment)
        self._found = dict(kept)
        if len(kept) == 2 * self._most:
            self._since = kept[-1][1]


def _moment(item: tuple[Key, str]) -> tuple[str, Key]:
    return item[1], item[0]


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
