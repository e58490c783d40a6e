"""What an expression may cost at most, reckoned as Kubernetes does when a definition is created.

Its own reckoning is not exact, and which definitions a cluster accepts depends on it: what looks
arbitrary here is as it is there. A cost is that of the loops which macros stand for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapilite.cel.call_costs import Call as CallSizes
from kapilite.cel.call_costs import call_cost
from kapilite.cel.sizes import MOST, NOTHING, ONE, UNKNOWN, Entry, Size
from kapilite.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    Index,
    ListOf,
    Literal,
    MapOf,
    Node,
    Select,
    qualified,
)
from kapilite.cel.types import DYN, TYPE_NAMES, ObjectType, Type

if TYPE_CHECKING:
    from kapilite.cel.checker import Checked
    from kapilite.cel.extents import Extent

_LIST, _MAP = 10, 30
_SCALARS = frozenset(
    {"bool", "double", "int", "uint", "google.protobuf.Timestamp", "google.protobuf.Duration"}
)
Path = tuple[str, ...]


class _Local(NamedTuple):
    path: Path
    size: Size | None
    entry: Entry | None = None


def estimate(node: Node, known: Checked, root: Extent | None) -> int:
    """The cost; `root` has the sizes of what variables stand for."""
    return _Coster(known, root).cost(node)


def is_scalar(kind: Type) -> bool:
    if kind.name == "optional_type":
        return is_scalar(kind.params[0])
    return kind.name in _SCALARS


class _Coster:
    def __init__(self, known: Checked, root: Extent | None) -> None:
        self._known = known
        self._root = root
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, Entry] = {}
        self._locals: dict[str, _Local] = {}

    def cost(self, node: Node) -> int:
        return min(self._cost(node), MOST)

    def _cost(self, node: Node) -> int:
        match node:
            case Ident():
                self._paths[id(node)] = self._path(node) or (node.name,)
                return 1
            case Select():
                return self._select(node)
            case Index():
                return self._called(node, "_[?_]" if node.is_optional else "_[_]")
            case Call():
                return self._call(node)
            case ListOf():
                items = [item for item, _ in node.items]
                total = sum(map(self.cost, items))
                self._entries[id(node)] = Entry(True, ONE, self._joined(items))
                return total + _LIST
            case MapOf():
                keys, values = (
                    [key for key, *_ in node.entries],
                    [value for _, value, _ in node.entries],
                )
                total = sum(map(self.cost, [*keys, *values]))
                self._entries[id(node)] = Entry(False, self._joined(keys), self._joined(values))
                return total + _MAP
            case Comprehension():
                return self._macro(node)
        return 0

    def _joined(self, nodes: list[Node]) -> Size:
        sizes = [self.known_size(node) for node in nodes]
        return (
            Size(min(one.least for one in sizes), max(one.most for one in sizes))
            if sizes
            else NOTHING
        )

    def type_of(self, node: Node) -> Type:
        return self._known.types.get(id(node), DYN)

    def _path(self, node: Node) -> Path:
        if isinstance(node, Ident) and node.name in self._locals:
            return self._locals[node.name].path
        return self._paths.get(id(node), ())

    def item_size(self, node: Node) -> Size:
        """Of an element of a list that can be found in the schema."""
        path = self._path(node)
        return (self._schema_size((*path, "@items")) if path else None) or UNKNOWN

    def _schema_size(self, path: Path) -> Size | None:
        if not path or self._root is None:
            return None
        found = self._root.at(path[1:])
        return None if found is None else Size(0, found.most)

    def size(self, node: Node) -> Size | None:
        if id(node) in self._sizes:
            return self._sizes[id(node)]
        match node:
            case Literal(value=str() | bytes()):
                return Size(len(node.value), len(node.value))
            case Literal():
                return ONE
            case ListOf():
                return Size(len(node.items), len(node.items))
            case MapOf():
                return Size(len(node.entries), len(node.entries))
        return self._place_size(
            self._path(node),
            self.type_of(node),
            self._locals.get(node.name) if isinstance(node, Ident) else None,
        )

    def _place_size(self, path: Path, kind: Type, local: _Local | None) -> Size | None:
        found = self._schema_size(path)
        if found is None and is_scalar(kind):
            return ONE
        return found or (local.size if local is not None else None)

    def known_size(self, node: Node) -> Size:
        return self.size(node) or UNKNOWN

    def entry(self, node: Node) -> Entry | None:
        found = self._entries.get(id(node))
        if found is None and isinstance(node, Ident) and node.name in self._locals:
            return self._locals[node.name].entry
        return found

    def _select(self, node: Select) -> int:
        if qualified(node) in TYPE_NAMES:
            return 1
        below = self.cost(node.operand)
        if node.is_test:
            return below
        if node.is_optional:
            return below + 1
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        kind = self.type_of(node.operand)
        return below + (isinstance(kind, ObjectType) or kind.name == "map")

    def _call(self, node: Call) -> int:
        name = node.function
        if name in ("_&&_", "_||_"):
            return sum(map(self.cost, node.args))
        if name == "dyn":
            below = self.cost(node.args[0])
            self._copy(node, node.args[0])
            return below + 1
        if name == "_?_:_":
            test, *branches = map(self.cost, node.args)
            self._choose(node, node.args[1], node.args[2])
            return test + max(branches)
        is_member = node.target is not None and id(node.target) in self._known.types
        if node.target is not None and not is_member:
            name = f"{qualified(node.target)}.{name}"
        return self._called(node, name)

    def _copy(self, node: Node, source: Node) -> None:
        if (size := self.size(source)) is not None:
            self._sizes[id(node)] = size
        if (entry := self.entry(source)) is not None:
            self._entries[id(node)] = entry

    def _choose(self, node: Node, one: Node, two: Node) -> None:
        self._sizes[id(node)] = self.known_size(one).union(self.known_size(two))
        first = self.entry(one)
        if first is not None and (entry := first.union(self.entry(two))) is not None:
            self._entries[id(node)] = entry

    def _called(self, node: Call | Index, name: str) -> int:
        args = _arguments(node, self._known)
        below = sum(map(self.cost, args))
        highest, result = 0, None
        for overload in self._known.overloads[id(node)]:
            cost, size = call_cost(CallSizes(name, overload, args, self))
            highest = max(highest, cost)
            if size is not None:
                result = size if result is None else result.union(size)
            if name == "_[_]" and overload.params[0].name in ("list", "map"):
                entry = self.entry(args[0])
                result = entry.value if entry is not None else None
                step = "@items" if overload.params[0].name == "list" else "@values"
                self._paths[id(node)] = (*self._path(args[0]), step)
            if result is None:
                result = self.size(node)
        first = self.entry(args[0]) if name == "_+_" else None
        if first is not None and (joined := first.union(self.entry(args[1]))) is not None:
            self._entries[id(node)] = joined
        if result is not None:
            self._sizes[id(node)] = result
        return below + highest

    def _macro(self, node: Comprehension) -> int:
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_map(node)
        over = self.cost(node.range)
        if node.macro == "sortBy":
            return _LIST + over + self._sorted(node)
        return over + self._loop(node, node.macro)

    def _loop(self, node: Comprehension, macro: str) -> int:
        """The cost of a loop without that of its range."""
        count = self.known_size(node.range)
        before = dict(self._locals)
        self._locals.update(self._variables(node))
        *tests, body = map(self.cost, node.body)
        match macro:
            case "all" | "exists":
                start, turn, end = 0, 1 + body + (2 if macro == "all" else 3), 1
            case "exists_one" | "existsOne":
                start, turn, end = 0, body + 2, 2
            case "filter":
                start, turn, end = _LIST, body + _LIST + 3, 1
            case "transformMap":
                start, turn, end = _MAP, sum(tests) + body + 3, 1
            case "transformMapEntry":
                start, turn, end = _MAP, sum(tests) + body + 2, 1
            case _:
                start, turn, end = _LIST, sum(tests) + body + _LIST + 2, 1
        self._remember(node, macro, count)
        self._locals = before
        return start + end + min(count.most * turn, MOST)

    def _remember(self, node: Comprehension, macro: str, count: Size) -> None:
        """The sizes of what a loop makes."""
        if start_is_scalar := macro in ("all", "exists", "exists_one", "existsOne"):
            self._sizes[id(node)] = ONE
        if start_is_scalar or macro == "sortBy":
            return
        self._sizes[id(node)] = count
        if macro == "filter":
            name = node.names[0]
            item = self._place_size(
                self._locals[name].path, self._member_type(node), self._locals[name]
            )
            self._entries[id(node)] = Entry(True, ONE, Size(0, (item or UNKNOWN).most))
        elif macro in ("map", "transformList"):
            self._entries[id(node)] = Entry(True, ONE, Size(0, self.known_size(node.body[-1]).most))

    def _member_type(self, node: Comprehension) -> Type:
        params = self.type_of(node.range).params
        return params[0] if params else DYN

    def _variables(self, node: Comprehension) -> dict[str, _Local]:
        entry = self.entry(node.range)
        is_list = entry.is_list if entry is not None else self.type_of(node.range).name == "list"
        path = self._path(node.range)
        key = _Local((*path, "@indices" if is_list else "@keys"), entry and entry.key)
        value = _Local((*path, "@items" if is_list else "@values"), entry and entry.value)
        if len(node.names) == 2:
            return dict(zip(node.names, (key, value), strict=True))
        return {node.names[0]: value if is_list else key}

    def _sorted(self, node: Comprehension) -> int:
        keys = 1 + self._loop(node, "sortBy")
        highest = 0
        for overload in self._known.overloads[id(node)]:
            call = CallSizes("sort", overload, (node.range,), self)
            cost, size = call_cost(call._replace(kind=overload.params[1].params[0]))
            highest, self._sizes[id(node)] = max(highest, cost), size or UNKNOWN
        return 1 + highest + keys

    def _optional_map(self, node: Comprehension) -> int:
        is_name = isinstance(node.range, Ident)
        over = 0 if is_name else self.cost(node.range) + _LIST
        kind = self.type_of(node.range)
        value = kind.params[0] if kind.params else DYN
        before = dict(self._locals)
        self._locals[node.names[0]] = _Local((), ONE if is_scalar(value) else None)
        inner = self.cost(node.body[0]) + _LIST + 2
        none = ONE if is_scalar(self.type_of(node)) else UNKNOWN
        made = self.known_size(node.body[0]) if node.macro == "optFlatMap" else none
        self._locals = before
        self._sizes[id(node)] = none.union(made)
        return over + 2 + inner + (node.macro == "optMap")


def _arguments(node: Call | Index, known: Checked) -> tuple[Node, ...]:
    if isinstance(node, Index):
        return node.operand, node.key
    if node.target is None or id(node.target) not in known.types:
        return node.args
    return node.target, *node.args
