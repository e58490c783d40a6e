"""A table: its columns and filters, and what of it one look shows.

Everything that a user chooses stands in the query: `q` is the text that a row must contain, every
filter has a field of its own name, `sort` is a column (`-` before it: descending), `group` a
filter, `page` and `size` say which rows. What is not known there is ignored, so an old link still
shows the table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from laneway.views.order import natural
from laneway.web.caches import Change
from laneway.web.place import Place
from laneway.web.tables.rows import Entry, Moved, Rows

T = TypeVar("T")

SIZES = (25, 50, 100)
SIZE = 50
_NO_GROUP = "none"
"""Of a table that is grouped where its query does not say."""
FEW = 100
"""A filter with more options, or with none, is a field to type in."""


class Option(NamedTuple):
    """A value of a filter, and what it is called."""

    value: str
    title: str


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column; without an order it cannot be sorted by."""

    id: str
    title: str
    order: Callable[[T], Any] | None = None
    number: bool = False


@dataclass(frozen=True)
class Filter(Generic[T]):
    """What rows can be selected and grouped by."""

    id: str
    title: str
    values: Callable[[T], Iterable[str]]
    options: Callable[[], Sequence[Option]]
    groups: bool = False
    """Whether rows can be grouped by it."""
    order: Callable[[str], Any] = natural
    """The order of groups, by their values."""
    unset: str = ""
    """What it is called that nothing is selected, where that is not just any row."""
    narrows: bool = True
    """False: the page has decided by it which rows there are."""


class Head(NamedTuple):
    """The head of a column."""

    column: Column[Any]
    sort_url: str
    """Where it is sorted by this column, or the other way round; empty: it cannot be."""
    sorted: str
    """`ascending`, `descending` or empty."""


class Choice(NamedTuple):
    """A filter as it is shown."""

    filter: Filter[Any]
    options: Sequence[Option]
    value: str
    typed: bool
    """Whether it is typed, because there are too many options to choose from."""


class Chip(NamedTuple):
    """A filter that is set, and the address without it."""

    title: str
    value: str
    url: str


class Group(NamedTuple, Generic[T]):
    """Rows under a common heading; without grouping there is one, without a title."""

    value: str
    title: str
    size: int
    """How many rows there are in all, here and on other pages."""
    rows: Sequence[T]


@dataclass(frozen=True)
class View(Generic[T]):
    """What one look shows."""

    place: Place
    heads: Sequence[Head]
    choices: Sequence[Choice]
    chips: Sequence[Chip]
    groups: Sequence[Group[T]]
    group: str
    groupings: Sequence[Filter[T]]
    ungrouped: str
    """What the query says where rows are not grouped."""
    search: str
    total: int
    matching: int
    first: int
    last: int
    size: int
    previous_url: str
    next_url: str
    found: Sequence[Entry[T]]
    """All that match, on every page."""
    shown: frozenset[Hashable]
    """The keys of the rows."""
    matches: Callable[[T], bool]
    order: Callable[[T], Any]

    @property
    def rows(self) -> list[T]:
        return [row for group in self.groups for row in group.rows]

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.heads)


@dataclass(frozen=True)
class Table(Generic[T]):
    """What a table consists of."""

    columns: Sequence[Column[T]]
    key: Callable[[T], Hashable]
    text: Callable[[T], str]
    """What the search looks at."""
    order: Callable[[T], Any]
    """The order of rows where nothing else decides."""
    filters: Sequence[Filter[T]] = ()
    group: str = ""
    """What rows are grouped by where the query does not say."""

    def view(self, items: Sequence[T] | Rows[T], place: Place) -> View[T]:
        """What the query of a page shows of these items."""
        rows = items if isinstance(items, Rows) else self.rows(items)
        named = {one.id: place.get(one.id) for one in self.filters if place.get(one.id)}
        chosen = {one.id: named[one.id] for one in self.filters if one.narrows and one.id in named}
        search = place.get("q").strip()
        chosen_group = place.get("group") or self.group
        grouping = next((f for f in self.filters if f.groups and f.id == chosen_group), None)
        sort, column, descending = self._sort(place)
        order = column.order if column else None
        size = _number(place.get("size"), SIZE, SIZES)
        if grouping is not None and rows.is_indexed(grouping.id) and not (chosen or search):
            found: Sequence[Entry[T]] = _Groups(rows, grouping, order, descending=descending)
        else:
            found = self._found(rows, chosen, search, column, descending=descending)
            if grouping is not None:
                found = _grouped(found, grouping)
        pages = max(1, -(-len(found) // size))
        page = min(max(1, _number(place.get("page"), 1)), pages)
        first = (page - 1) * size
        shown = found[first : first + size]
        return View(
            place=place,
            heads=[self._head(one, place, sort) for one in self.columns],
            choices=[_choice(one, named.get(one.id, "")) for one in self.filters],
            chips=self._chips(named, search, place),
            groups=_groups(
                [entry.item for entry in shown], grouping, _counting(rows, found, chosen, search)
            ),
            group=grouping.id if grouping else "",
            groupings=[one for one in self.filters if one.groups],
            ungrouped=_NO_GROUP if self.group else "",
            search=search,
            total=len(rows),
            matching=len(found),
            first=first + 1 if shown else 0,
            last=first + len(shown),
            size=size,
            previous_url=place.with_(page=str(page - 1)) if page > 1 else "",
            next_url=place.with_(page=str(page + 1)) if page < pages else "",
            found=found,
            shown=frozenset(entry.key for entry in shown),
            matches=self._judge(chosen, search),
            order=self.order if column is None or column.order is None else column.order,
        )

    def rows(
        self,
        items: Iterable[T] = (),
        *,
        keys: Iterable[Hashable] | None = None,
        build: Callable[[Any], T | None] | None = None,
        touched: Callable[[Change], Iterable[Hashable]] = lambda _change: (),
        indexed: Iterable[str] = (),
    ) -> Rows[T]:
        """Rows for `view`: of these items, or kept as caches change (`rows.Rows`)."""
        values = {one.id: one.values for one in self.filters}
        by_key = {self.key(item): item for item in items}
        return Rows(
            by_key if keys is None else keys,
            build or by_key.get,
            touched,
            order=self.order,
            text=self.text,
            indexed={name: values[name] for name in indexed},
        )

    def _found(
        self,
        rows: Rows[T],
        chosen: dict[str, str],
        search: str,
        column: Column[T] | None,
        *,
        descending: bool,
    ) -> Sequence[Entry[T]]:
        """The rows that the filters and the search leave, in order."""
        order = column.order if column else None
        left = dict(chosen)
        if name := next((name for name in chosen if rows.is_indexed(name)), ""):
            found = rows.with_value(name, left.pop(name))
            if order is not None:
                found = sorted(found, key=lambda entry: order(entry.item))
        elif order is not None and column is not None:
            found = rows.by(column.id, order)
        else:
            found = rows.all()
        if descending:
            found = found[::-1]
        for word in search.casefold().split():
            found = [entry for entry in found if word in entry.text]
        if not left:
            return found
        matches = self._matches(left, "")
        return [entry for entry in found if matches(entry)]

    def _matches(self, chosen: dict[str, str], search: str) -> Callable[[Entry[T]], bool]:
        tests = [(one.values, chosen[one.id]) for one in self.filters if one.id in chosen]
        words = search.split()

        def matches(entry: Entry[T]) -> bool:
            for word in words:
                if word not in entry.text:
                    return False
            return all(value in values(entry.item) for values, value in tests)

        return matches

    def _judge(self, chosen: dict[str, str], search: str) -> Callable[[T], bool]:
        """Whether the filters leave an item."""
        matches = self._matches(chosen, search.casefold())
        return lambda item: matches(Entry(None, item, None, self.text(item).casefold()))

    def _sort(self, place: Place) -> tuple[str, Column[T] | None, bool]:
        sort = place.get("sort")
        name = sort.removeprefix("-")
        found = next((one for one in self.columns if one.id == name and one.order), None)
        return (sort, found, sort.startswith("-")) if found else ("", None, False)

    @staticmethod
    def _head(column: Column[T], place: Place, sort: str) -> Head:
        if column.order is None:
            return Head(column, "", "")
        is_ascending, is_descending = sort == column.id, sort == f"-{column.id}"
        url = place.with_(sort=f"-{column.id}" if is_ascending else column.id)
        direction = "ascending" if is_ascending else "descending" if is_descending else ""
        return Head(column, url, direction)

    def _chips(self, chosen: dict[str, str], search: str, place: Place) -> list[Chip]:
        chips = [
            Chip(one.title, _title(one, chosen[one.id]), place.with_(**{one.id: ""}))
            for one in self.filters
            if one.id in chosen
        ]
        return [*chips, Chip("", search, place.with_(q=""))] if search else chips


def concerns(
    view: View[T], kind: str, row: Callable[[Any], T], others: Callable[[Change], bool]
) -> Callable[[Change], bool]:
    """Which changes a table shows: of its rows, and of whether and where others are among them.

    `kind`: the cache whose objects are its rows, by `row`. `others`: about all other caches.
    """

    def shows(change: Change) -> bool:
        if change.kind != kind:
            return others(change)
        key = change.key.name if not change.key.namespace else str(change.key)
        before = row(change.before) if change.before is not None else None
        after = row(change.after) if change.after is not None else None
        return _shows(view, Moved(key, before, after))

    return shows


def concerns_rows(view: View[T], rows: Rows[T]) -> Callable[[Change], bool]:
    """The same for rows that are kept."""
    return lambda change: any(_shows(view, moved) for moved in rows.moved(change))


def _shows(view: View[T], moved: Moved[T]) -> bool:
    before, after = moved.before, moved.after
    if moved.key in view.shown:
        return True
    was = before is not None and view.matches(before)
    if was != (after is not None and view.matches(after)):
        return True
    return (
        was and before is not None and after is not None and view.order(before) != view.order(after)
    )


def _counting(
    rows: Rows[T], found: Sequence[Entry[T]], chosen: dict[str, str], search: str
) -> Callable[[Filter[T], str], int]:
    """How many rows there are in a group, on all pages."""
    counts: Counter[str] = Counter()

    def count(grouping: Filter[T], value: str) -> int:
        if rows.is_indexed(grouping.id) and not chosen and not search:
            return rows.count(grouping.id, value)
        if not counts:
            counts.update(_group_of(grouping, entry.item) for entry in found)
        return counts[value]

    return count


def _group_of(grouping: Filter[T], item: T) -> str:
    return next(iter(grouping.values(item)), "")


class _Groups(Sequence[Entry[T]]):
    """All rows by group, of which a look takes a few: only their groups are sorted."""

    def __init__(
        self,
        rows: Rows[T],
        grouping: Filter[T],
        order: Callable[[T], Any] | None,
        *,
        descending: bool,
    ) -> None:
        self._rows, self._grouping = rows, grouping
        self._order, self._descending = order, descending

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        first, last, _ = at.indices(len(self))
        name, begin = self._grouping.id, 0
        found: list[Entry[T]] = []
        for value in sorted(self._rows.values(name), key=self._grouping.order):
            end = begin + self._rows.count(name, value)
            if end > first and begin < last:
                group = self._group(value)
                found += group[max(0, first - begin) : last - begin]
            begin = end
        return found

    def _group(self, value: str) -> Sequence[Entry[T]]:
        group, order = self._rows.with_value(self._grouping.id, value), self._order
        if order is None:
            return group
        found = sorted(group, key=lambda entry: order(entry.item))
        return found[::-1] if self._descending else found


def _grouped(found: Iterable[Entry[T]], grouping: Filter[T]) -> list[Entry[T]]:
    """The rows by group, each group in the order in which they came."""
    groups: dict[str, list[Entry[T]]] = defaultdict(list)
    for entry in found:
        groups[_group_of(grouping, entry.item)].append(entry)
    return [entry for value in sorted(groups, key=grouping.order) for entry in groups[value]]


def _groups(
    rows: Sequence[T],
    grouping: Filter[T] | None,
    count: Callable[[Filter[T], str], int],
) -> Sequence[Group[T]]:
    if grouping is None:
        return [Group("", "", len(rows), rows)]
    by_group: dict[str, list[T]] = {}
    for row in rows:
        by_group.setdefault(_group_of(grouping, row), []).append(row)
    titles = {option.value: option.title for option in grouping.options()}
    return [
        Group(one, titles.get(one, one), count(grouping, one), found)
        for one, found in by_group.items()
    ]


def _title(one: Filter[Any], value: str) -> str:
    return next((option.title for option in one.options() if option.value == value), value)


def _choice(one: Filter[Any], value: str) -> Choice:
    options = one.options()
    return Choice(one, options, value, typed=not options or len(options) > FEW)


def _number(text: str, default: int, allowed: Sequence[int] = ()) -> int:
    """A number as it stands in a query; what is none, or not allowed, is the default."""
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        return default
    number = int(text)
    return number if not allowed or number in allowed else default
