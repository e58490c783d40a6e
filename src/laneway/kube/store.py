"""A copy of one collection in memory, found by key or by any number of indexes.

The values under which an object was indexed are kept with it: taking it out of an index never
asks the indexer again, so an object that was changed in place cannot leave a stale entry behind.
All values of a new object are worked out before anything is touched; an indexer that raises leaves
the store as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Generic

from laneway.kube.resource import Key, T, T_co, key_of

Indexer = Callable[[T], Iterable[Hashable]]

_Keys = tuple[Key] | dict[Key, None]
"""The objects under a value, in the order in which they came; of many values there is only one."""

_REMEMBERED = 1024
"""The keys of so many changes are kept."""


class Store(Generic[T_co]):
    """Objects by key, with named indexes kept in step."""

    def __init__(self, indexers: Mapping[str, Indexer[T_co]] | None = None) -> None:
        self.changes = 0
        """How many there have been: what was worked out from the store holds until the next."""
        indexers = dict(indexers or {})
        self._indexers = list(indexers.values())
        self._recent: deque[Key] = deque(maxlen=_REMEMBERED)
        self._objects: dict[Key, T_co] = {}
        self._values: dict[Key, tuple[tuple[Hashable, ...], ...]] = {}
        """By which values an object is indexed, in the order of the indexers; if by any."""
        self._latest: tuple[tuple[Hashable, ...], ...] = ()
        """Those of the object that came last, which its neighbours have most of too."""
        self._indexes: dict[str, dict[Hashable, _Keys]] = {name: {} for name in indexers}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T_co]:
        """Every object, as of now: the store may change while the caller goes through them."""
        return iter(list(self._objects.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, name: str, namespace: str = "") -> T_co | None:
        return self._objects.get(Key(namespace, name))

    def at(self, key: Key) -> T_co | None:
        """The same by its key."""
        return self._objects.get(key)

    def keys(self) -> set[Key]:
        return set(self._objects)

    def by(self, index: str, value: Hashable) -> list[T_co]:
        """The objects indexed under a value, in the order in which they came."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def each(self, index: str, value: Hashable) -> Iterator[T_co]:
        """The same one by one, for who needs few of many; the store must not change meanwhile."""
        return (self._objects[key] for key in self._indexes[index].get(value, ()))

    def first(self, index: str, value: Hashable) -> T_co | None:
        """The first of them, if there is any."""
        keys = self._indexes[index].get(value)
        return self._objects[next(iter(keys))] if keys else None

    def values(self, index: str) -> set[Hashable]:
        """Every value that at least one object is indexed under."""
        return set(self._indexes[index])

    def changed_since(self, changes: int) -> set[Key] | None:
        """What has changed since there were so many changes; None: more than is remembered."""
        count = self.changes - changes
        if not 0 <= count <= len(self._recent):
            return None
        return set(islice(reversed(self._recent), count))

    def put(
        self,
        obj: T_co,  # type: ignore[misc]  # only the store's owner
        key: Key | None = None,
    ) -> T_co | None:
        """Add or replace; the object that was there before, if any. Its key, if it is known.

        Most changes of an object concern nothing that it is indexed by; then it keeps its place.
        """
        key = key or key_of(obj)
        values = self._shared(tuple([tuple(indexer(obj)) for indexer in self._indexers]))
        if not any(values):
            values = ()
        objects = self._objects
        old = objects.get(key)
        self.changes += 1
        self._recent.append(key)
        objects[key] = obj
        if old is None or values != self._values.get(key, ()):
            self._unindex(key)
            if values:
                self._values[key] = values
            for index, entries in zip(self._indexes.values(), values, strict=False):
                for value in entries:
                    _add(index, value, key)
        return old

    def drop(self, key: Key) -> T_co | None:
        """Take out; the object that was there, if any."""
        self.changes += 1
        self._recent.append(key)
        old = self._objects.pop(key, None)
        self._unindex(key)
        return old

    def _shared(self, values: tuple[tuple[Hashable, ...], ...]) -> tuple[tuple[Hashable, ...], ...]:
        """The same, with what equals that of the object before kept once."""
        latest = self._latest
        if values == latest:
            return latest
        pairs = zip(latest, values, strict=True) if latest else ()
        self._latest = tuple([old if old == new else new for old, new in pairs]) or values
        return self._latest

    def _unindex(self, key: Key) -> None:
        for index, entries in zip(self._indexes.values(), self._values.pop(key, ()), strict=False):
            for value in set(entries):
                keys = index[value]
                if isinstance(keys, dict) and len(keys) > 1:
                    del keys[key]
                else:
                    del index[value]


def _add(index: dict[Hashable, _Keys], value: Hashable, key: Key) -> None:
    keys = index.get(value)
    if keys is None:
        index[value] = (key,)
    elif isinstance(keys, dict):
        keys[key] = None
    else:
        index[value] = dict.fromkeys((*keys, key))
