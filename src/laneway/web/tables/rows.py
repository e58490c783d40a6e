"""The rows of a table over a large collection, kept in order as objects change.

A cluster has a hundred thousand vGPUs. Making, filtering and sorting all of their rows for every
look would take a second; here a row is made when something that it shows changes, and put into its
place in every order that users have asked for. A look then takes a slice, or goes through the rows
once where it filters.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from laneway.web.caches import Change

T = TypeVar("T")

Order = Callable[[T], Any]
_ORDERS = 8
"""So many orders are kept; the one that was not asked for longest goes."""
_FEW = 8
"""One of so many rows and less is sorted faster than it is looked for."""


class Moved(NamedTuple, Generic[T]):
    """What a change did to a row; None for a row that was not, or is not any more."""

    key: Hashable
    before: T | None
    after: T | None


class Entry(Generic[T]):
    """A row, with what every look needs of it."""

    __slots__ = ("item", "key", "order", "text")

    def __init__(self, key: Hashable, item: T, order: Any, text: str) -> None:
        self.key = key
        self.item = item
        self.order = order
        """Unique: the order of rows, and the key."""
        self.text = text


class Rows(Generic[T]):
    """The rows, made by `build` from what the caches hold."""

    def __init__(
        self,
        keys: Iterable[Hashable],
        build: Callable[[Any], T | None],
        touched: Callable[[Change], Iterable[Hashable]],
        *,
        order: Order[T],
        text: Callable[[T], str],
        indexed: Mapping[str, Callable[[T], Iterable[str]]],
    ) -> None:
        """`keys`: of all rows that there are now. `touched`: those that a change is shown in.

        `order` gives what can be compared, `text` what the search looks at, `indexed` the values
        of filters by their names.
        """
        self._build, self._touched = build, touched
        self._order, self._text, self._indexed = order, text, indexed
        self._entries: dict[Hashable, Entry[T]] = {}
        self._values: dict[str, dict[str, dict[Hashable, Entry[T]]]] = {
            name: defaultdict(dict) for name in indexed
        }
        self._orders: dict[str, tuple[Order[T], list[Entry[T]]]] = {}
        self._last: tuple[Change | None, list[Moved[T]]] = (None, [])
        for key in keys:
            if (entry := self._made(key)) is not None:
                self._entries[key] = entry
                self._index(entry)
        self._sorted = sorted(self._entries.values(), key=_own_order)

    def __len__(self) -> int:
        return len(self._entries)

    def changed(self, change: Change) -> None:
        """Take a change in. Call it before those who ask what moved."""
        moved = []
        for key in self._touched(change):
            before = self._take_out(key)
            after = self._made(key)
            if after is not None:
                self._put_in(after)
            moved.append(Moved(key, before.item if before else None, after.item if after else None))
        self._last = (change, moved)

    def moved(self, change: Change) -> Sequence[Moved[T]]:
        """What a change did; nothing of one that came before the latest."""
        last, moved = self._last
        return moved if last is change else ()

    def all(self) -> Sequence[Entry[T]]:
        """Every row, in the order of rows."""
        return self._sorted

    def with_value(self, name: str, value: str) -> Sequence[Entry[T]]:
        """The rows that have a value of an indexed filter, in the order of rows."""
        found = self._values[name].get(value, {})
        if len(found) * _FEW > len(self._sorted):
            return [entry for entry in self._sorted if entry.key in found]
        return sorted(found.values(), key=_own_order)

    def is_indexed(self, name: str) -> bool:
        return name in self._indexed

    def count(self, name: str, value: str) -> int:
        """How many rows have a value of an indexed filter."""
        return len(self._values[name].get(value, ()))

    def values(self, name: str) -> list[str]:
        """The values of an indexed filter that at least one row has."""
        return [value for value, entries in self._values[name].items() if entries]

    def only(self, name: str, values: Collection[str]) -> Rows[T]:
        """The rows with one of these values of an indexed filter, as of now, for one look."""
        if all(value in values for value in self.values(name)):
            return self
        part = Rows[T](
            (),
            self._build,
            self._touched,
            order=self._order,
            text=self._text,
            indexed=self._indexed,
        )
        chosen = {key for value in values for key in self._values[name].get(value, ())}
        part._sorted = [entry for entry in self._sorted if entry.key in chosen]
        part._entries = {entry.key: entry for entry in part._sorted}
        for entry in part._sorted:
            part._index(entry)
        return part

    def by(self, name: str, order: Order[T]) -> Sequence[Entry[T]]:
        """Every row by another order, kept under a name; equal ones by the order of rows."""
        kept = self._orders.pop(name, None)
        if kept is None:
            if len(self._orders) >= _ORDERS:
                del self._orders[next(iter(self._orders))]
            kept = order, sorted(self._sorted, key=lambda entry: order(entry.item))
        self._orders[name] = kept
        return kept[1]

    def _made(self, key: Hashable) -> Entry[T] | None:
        item = self._build(key)
        if item is None:
            return None
        return Entry(key, item, (self._order(item), key), self._text(item).casefold())

    def _put_in(self, entry: Entry[T]) -> None:
        self._entries[entry.key] = entry
        self._index(entry)
        insort(self._sorted, entry, key=_own_order)
        for order, entries in self._orders.values():
            insort(entries, entry, key=_by(order))

    def _take_out(self, key: Hashable) -> Entry[T] | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        for name, values in self._indexed.items():
            for value in values(entry.item):
                self._values[name][value].pop(key, None)
        del self._sorted[bisect_left(self._sorted, entry.order, key=_own_order)]
        for order, entries in self._orders.values():
            whole = _by(order)
            del entries[bisect_left(entries, whole(entry), key=whole)]
        return entry

    def _index(self, entry: Entry[T]) -> None:
        for name, values in self._indexed.items():
            for value in values(entry.item):
                self._values[name][value][entry.key] = entry


def _own_order(entry: Entry[Any]) -> Any:
    return entry.order


def _by(order: Order[T]) -> Callable[[Entry[T]], Any]:
    return lambda entry: (order(entry.item), entry.order)
