"""What one call of a function may cost at most, and how large its result can be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapilite.cel.sizes import MOST, NOTHING, ONE, Size, scaled
from kapilite.cel.syntax import Literal
from kapilite.cel.types import BYTES, DYN, STRING, Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapilite.cel.functions import Overload
    from kapilite.cel.syntax import Node

_TRAVERSAL = 0.1
"""Of a character."""
_PATTERN = 0.25
_LIST = 10
_ADDRESS = 16
"""Bytes."""
_FORMAT_PATTERN = 128
_FORMAT_NAME = 64

Found = tuple[int, Size | None]


class Sizes(Protocol):
    """What is known of arguments."""

    def known_size(self, node: Node) -> Size: ...
    def item_size(self, node: Node) -> Size: ...
    def type_of(self, node: Node) -> Type: ...


class Call(NamedTuple):
    name: str
    overload: Overload
    args: tuple[Node, ...]
    sizes: Sizes
    kind: Type = DYN
    """Of the keys that a list is sorted by."""

    def size(self, index: int) -> Size:
        return self.sizes.known_size(self.args[index])

    def traversed(self, index: int, times: float = 1) -> int:
        return scaled(self.size(index).most, times * _TRAVERSAL)


def call_cost(call: Call) -> Found:
    """Without the cost of the arguments."""
    found = _COSTS.get(call.name)
    return found(call) if found is not None else (1, None)


def _scan(call: Call) -> Found:
    return call.traversed(0), None


def _scan_of_same_size(call: Call) -> Found:
    return call.traversed(0), call.size(0)


def _address(call: Call) -> Found:
    return (1, None) if call.overload.params[0] != STRING else _scan(call)


def _contains_address(call: Call) -> Found:
    cost = scaled(2 * _ADDRESS, _TRAVERSAL)
    if call.name == "containsCIDR":
        cost += scaled(_ADDRESS, _TRAVERSAL) + 1
    return cost + (call.traversed(1) if call.overload.params[1] == STRING else 0), None


def _validate(call: Call) -> Found:
    return scaled(call.traversed(1), _FORMAT_PATTERN * _PATTERN), None


def _each(call: Call) -> Found:
    """Once through a list, and through the texts in it."""
    params = call.sizes.type_of(call.args[0]).params
    if not params:
        return call.traversed(0), None
    each = 1
    if params[0] in (STRING, BYTES):
        each += scaled(call.sizes.item_size(call.args[0]).most, _TRAVERSAL)
    return min(call.size(0).most * each, MOST), None


def _replace(call: Call) -> Found:
    text, old, new = (call.size(index) for index in range(3))
    kept, most, least = NOTHING, 0, 0
    if old.least == 0:
        most, kept = min(text.most + 1, MOST), Size(0, text.most)
    elif new.most <= old.least:
        kept = Size(0, text.most)
    else:
        most = math.ceil(text.most / old.least)
    if old.most == 0:
        least, kept = min(text.least + 1, MOST), kept._replace(least=text.least)
    elif old.most <= new.least:
        kept = kept._replace(least=text.least)
    else:
        least = math.ceil(text.least / old.most)
    return call.traversed(0, 2), Size(least, most).times(new).plus(kept)


def _split(call: Call) -> Found:
    most = call.size(0).most
    if (
        len(call.args) > 2
        and isinstance(limit := call.args[2], Literal)
        and type(limit.value) is int
    ):
        most = limit.value % (MOST + 1)
    return call.traversed(0, 2), Size(0, most)


def _join(call: Call) -> Found:
    count, size = call.size(0), NOTHING
    if call.sizes.type_of(call.args[0]).params:
        size = count.times(call.sizes.item_size(call.args[0]))
    if len(call.args) > 1:
        between = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(call.size(1).times(between))
    return scaled(size.most, _TRAVERSAL), size


def _pattern(call: Call) -> Found:
    text = scaled(min(call.size(0).most + 1, MOST), _TRAVERSAL)
    return min(text * scaled(call.size(1).most, _PATTERN), MOST), None


def _find(call: Call) -> Found:
    return _pattern(call)[0], Size(0, call.size(0).most)


def _sets(call: Call) -> Found:
    both = call.size(0).times(call.size(1)).most
    return scaled(both, 2 if call.name == "sets.equivalent" else 1) + 1, None


def _made(size: Size, factor: float = 1, *, result: Size | None = None) -> Found:
    return scaled(size.most, factor) + _LIST + 1, result or size


def _whole(node: Node, default: int) -> int:
    """The value of a literal that is a number."""
    if isinstance(node, Literal) and type(node.value) is int:
        return max(node.value, 0)
    return default


def _slice(call: Call) -> Found:
    end, start = _whole(call.args[2], call.size(0).most), _whole(call.args[1], 0)
    length = (end - start) % (MOST + 1)
    return _made(Size(length, length))


def _range(call: Call) -> Found:
    length = _whole(call.args[0], MOST)
    return _made(Size(length, length))


def _flatten(call: Call) -> Found:
    depth = _whole(call.args[1], MOST) if len(call.args) > 1 else 1
    return _made(call.size(0), float(depth))


def _pairs(call: Call) -> Found:
    """Each element with each other."""
    params = call.overload.params[0].params
    kind = call.kind
    if kind == DYN:
        kind = params[0]
    if call.name == "distinct":
        kind = (call.sizes.type_of(call.args[0]).params or (DYN,))[0]
    both = call.size(0).times(call.size(0))
    return _made(both, 2 + (_TRAVERSAL if kind in (STRING, BYTES) else 0))


def _bytes(call: Call) -> Found:
    if call.overload.params[0] != STRING:
        return 1, None
    size = call.size(0)
    return call.traversed(0), Size(size.least, size.most * 4 % (MOST + 1))


def _string(call: Call) -> Found:
    if call.overload.params[0] != BYTES:
        return 1, None
    size = call.size(0)
    return call.traversed(0), Size(size.least // 4, size.most)


def _quote(call: Call) -> Found:
    size = call.size(0)
    return call.traversed(0), Size(size.least + 2, (size.most * 2 + 2) % (MOST + 1))


def _ends(call: Call) -> Found:
    return call.traversed(1), None


def _in(call: Call) -> Found:
    return (call.size(1).most if call.overload.params[1].name == "list" else 1), None


def _contains(call: Call) -> Found:
    return min(call.traversed(0) * call.traversed(1), MOST), None


def _add(call: Call) -> Found:
    kind = call.overload.params[0]
    if kind not in (STRING, BYTES) and kind.name != "list":
        return 1, None
    size = call.size(0).plus(call.size(1))
    return (1 if kind.name == "list" else scaled(size.most, _TRAVERSAL)), size


def _compare(call: Call) -> Found:
    if call.overload.params[0] not in (STRING, BYTES):
        return 1, None
    return _smaller(call), None


def _smaller(call: Call) -> int:
    return scaled(min(call.size(0).most, call.size(1).most), _TRAVERSAL)


def _equal(call: Call) -> Found:
    one, two = map(call.sizes.type_of, call.args)
    if one != two:
        return _smaller(call), None
    match one.name:
        case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
            return 1, None
        case "kubernetes.NamedFormat":
            return scaled(_FORMAT_NAME, _TRAVERSAL), None
        case "kubernetes.URL":
            size = call.size(1)
            return scaled((size if size.most < MOST else ONE).most, _TRAVERSAL), None
    return _smaller(call), None


_COSTS: dict[str, Callable[[Call], Found]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scan_of_same_size),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "format"), _scan),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _scan),
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains_address),
    **dict.fromkeys(("sets.contains", "sets.intersects", "sets.equivalent"), _sets),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("startsWith", "endsWith"), _ends),
    **dict.fromkeys(("distinct", "sort"), _pairs),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compare),
    "ip": _address,
    "ip.isCanonical": lambda call: (call.traversed(0, 2), None),
    "validate": _validate,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _pattern,
    "slice": _slice,
    "lists.range": _range,
    "reverse": lambda call: _made(call.size(0)),
    "flatten": _flatten,
    "bytes": _bytes,
    "string": _string,
    "strings.quote": _quote,
    "@in": _in,
    "contains": _contains,
    "_+_": _add,
    "_==_": _equal,
    "_!=_": lambda call: (_smaller(call), None),
}
