"""An expression made ready to run, and run within a budget.

The tree becomes nested closures once. Every call, selection and turn of a loop takes from the
budget, long texts and lists more; when it is used up the evaluation ends with `CostExceeded`, so
that no rule can hold up the server. `&&`, `||`, `all` and `exists` forgive an error where the other
side decides, as CEL has it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kapilite.cel.checker import TYPE_NAMES, qualified
from kapilite.cel.functions import NAMESPACES, find
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
    mentions,
    parse,
)
from kapilite.cel.types import kind_of
from kapilite.cel.values import CelError, Optional, TypeValue, UInt

if TYPE_CHECKING:
    from collections.abc import Iterator

Scope = dict[str, Any]
Step = Callable[[Scope], Any]

CALL_LIMIT = 1_000_000
"""What one evaluation may cost; Kubernetes' own limit."""

_BUDGET = ""
"""Under this name the scope holds the budget: no variable can be called so."""


class CostExceeded(Exception):  # noqa: N818 - an outcome, named as Kubernetes names it
    """The evaluation was stopped."""


class Budget:
    """What an evaluation may still cost."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise CostExceeded


class Program:
    """A parsed expression that can be evaluated many times."""

    def __init__(self, text: str) -> None:
        self.tree = parse(text)
        self.uses_old = mentions(self.tree, "oldSelf")
        self._run = _compiled(self.tree, frozenset())

    def evaluate(self, variables: Scope, budget: Budget) -> Any:
        """The value, or CelError or CostExceeded."""
        value = self._run({**variables, _BUDGET: budget})
        if isinstance(value, CelError):
            raise value
        return value


@functools.lru_cache(maxsize=2048)
def program(text: str) -> Program:
    """The program of an expression; CelSyntaxError where it is none."""
    return Program(text)


def _compiled(node: Node, bound: frozenset[str]) -> Step:
    match node:
        case Literal():
            constant = node.value
            return lambda _: constant
        case Ident():
            return _ident(node, bound)
        case Select():
            return _select(node, bound)
        case Index():
            return _index(node, bound)
        case Call():
            return _call(node, bound)
        case ListOf():
            return _list(node, bound)
        case MapOf():
            return _map(node, bound)
        case Comprehension():
            return _comprehension(node, bound)


def _ident(node: Ident, bound: frozenset[str]) -> Step:
    name = node.name
    if name in TYPE_NAMES and name not in bound:
        value = TypeValue(name)
        return lambda scope: scope.get(name, value)

    def read(scope: Scope) -> Any:
        try:
            found = scope[name]
        except KeyError:
            raise CelError(f"no such attribute(s): {name}") from None
        if isinstance(found, CelError):
            raise found
        return found

    return read


def _select(node: Select, bound: frozenset[str]) -> Step:
    name = qualified(node)
    if name in TYPE_NAMES and name.split(".")[0] not in bound:
        value = TypeValue(name)
        return lambda _: value
    operand, field = _compiled(node.operand, bound), node.field
    is_test, is_optional = node.is_test, node.is_optional

    def select(scope: Scope) -> Any:
        value = operand(scope)
        scope[_BUDGET].spend(1)
        was_optional = isinstance(value, Optional)
        if was_optional:
            if not value.present:
                return False if is_test else value
            value = value.value
        if not isinstance(value, dict):
            raise CelError(
                "no such overload" if kind_of(value) != "null_type" else f"no such key: {field}"
            )
        if is_test:
            return field in value
        return _member(value, field, is_optional=is_optional or was_optional)

    return select


def _member(value: dict[Any, Any], key: Any, *, is_optional: bool) -> Any:
    if key not in value:
        if is_optional:
            return Optional()
        raise CelError(f"no such key: {key}")
    found = value[key]
    if isinstance(found, CelError):
        raise found
    return Optional(found, present=True) if is_optional else found


def _index(node: Index, bound: frozenset[str]) -> Step:
    operand, index = _compiled(node.operand, bound), _compiled(node.key, bound)
    wants_optional = node.is_optional

    def look_up(scope: Scope) -> Any:
        value, key = operand(scope), index(scope)
        scope[_BUDGET].spend(1)
        is_optional = wants_optional
        if isinstance(value, Optional):
            if not value.present:
                return value
            value, is_optional = value.value, True
        if isinstance(value, dict) and isinstance(key, str | int | float | bool):
            return _member(value, key, is_optional=is_optional)
        if isinstance(value, list):
            return _item(value, key, is_optional=is_optional)
        raise CelError("no such overload")

    return look_up


def _item(items: list[Any], key: Any, *, is_optional: bool) -> Any:
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(key, bool) or not isinstance(key, int):
        raise CelError("no such overload")
    if not 0 <= key < len(items):
        if is_optional:
            return Optional()
        raise CelError(f"index out of bounds: {key}")
    found = items[key]
    if isinstance(found, CelError):
        raise found
    return Optional(found, present=True) if is_optional else found


def _call(node: Call, bound: frozenset[str]) -> Step:
    name, target = node.function, node.target
    args = tuple(_compiled(arg, bound) for arg in node.args)
    match name:
        case "_&&_":
            return _logic(args, decisive=False)
        case "_||_":
            return _logic(args, decisive=True)
        case "_?_:_":
            return _choice(*args)
    prefix = qualified(target) if target is not None else ""
    if prefix in NAMESPACES and prefix not in bound:
        name, target = f"{prefix}.{name}", None
    is_member = target is not None
    if target is not None:
        args = (_compiled(target, bound), *args)
    if is_member and name in ("or", "orValue") and len(args) == 2:
        return _otherwise(*args, is_optional=name == "or")
    return _applied(name, args, is_member=is_member)


def _applied(name: str, args: tuple[Step, ...], *, is_member: bool) -> Step:
    is_cheap = name in ("size", "type", "dyn", "optional.of", "optional.none")
    is_pairwise = name.startswith("sets.")  # each of the one with each of the other

    known: dict[tuple[type, ...], Callable[..., Any]] = {}

    def call(scope: Scope) -> Any:
        values = [arg(scope) for arg in args]
        budget = scope[_BUDGET]
        types = tuple(map(type, values))
        run = known.get(types)
        if run is None:
            overload = find(name, values, is_member=is_member)
            if overload is None:
                raise CelError("no such overload")
            run = known[types] = overload.run
        cost = 1
        if not is_cheap:
            for value in values:
                if type(value) not in _LIGHT:
                    cost += _weight(value)
            if is_pairwise:
                cost += math.prod(map(_weight, values))
        budget.spend(cost)
        result = run(*values)
        if type(result) not in _LIGHT:
            budget.spend(_weight(result))
        return result

    return call


_LIGHT = frozenset({int, bool, float, UInt, type(None)})


def _weight(value: Any) -> int:
    """What it costs to go through a value."""
    if isinstance(value, str | bytes):
        return len(value) // 10
    return len(value) if isinstance(value, list | dict) else 0


def _logic(args: tuple[Step, ...], *, decisive: bool) -> Step:
    def decide(scope: Scope) -> bool:
        scope[_BUDGET].spend(1)
        error: CelError | None = None
        for arg in args:
            try:
                value = arg(scope)
            except CelError as caught:
                error = error or caught
                continue
            if value is decisive:
                return bool(decisive)
            if not isinstance(value, bool):
                error = error or CelError("no such overload")
        if error is not None:
            raise error
        return not decisive

    return decide


def _otherwise(first: Step, second: Step, *, is_optional: bool) -> Step:
    """The other value is not even looked at where there is one."""

    def choose(scope: Scope) -> Any:
        value = first(scope)
        if not isinstance(value, Optional):
            raise CelError("no such overload")
        if not value.present:
            return second(scope)
        return value if is_optional else value.value

    return choose


def _choice(test: Step, yes: Step, no: Step) -> Step:
    def choose(scope: Scope) -> Any:
        scope[_BUDGET].spend(1)
        value = test(scope)
        if not isinstance(value, bool):
            raise CelError("no such overload")
        return yes(scope) if value else no(scope)

    return choose


def _list(node: ListOf, bound: frozenset[str]) -> Step:
    items = [(_compiled(item, bound), is_optional) for item, is_optional in node.items]

    def build(scope: Scope) -> list[Any]:
        scope[_BUDGET].spend(1 + len(items))
        found = []
        for item, is_optional in items:
            value = item(scope)
            if not is_optional:
                found.append(value)
            elif not isinstance(value, Optional):
                raise CelError("no such overload")
            elif value.present:
                found.append(value.value)
        return found

    return build


def _map(node: MapOf, bound: frozenset[str]) -> Step:
    entries = [
        (_compiled(key, bound), _compiled(value, bound), is_optional)
        for key, value, is_optional in node.entries
    ]

    def build(scope: Scope) -> dict[Any, Any]:
        scope[_BUDGET].spend(1 + len(entries))
        found: dict[Any, Any] = {}
        for make_key, make_value, is_optional in entries:
            key, value = make_key(scope), make_value(scope)
            if not isinstance(key, str | int | bool | UInt):
                raise CelError("unsupported key type")
            if is_optional:
                if not isinstance(value, Optional):
                    raise CelError("no such overload")
                if not value.present:
                    continue
                value = value.value
            if key in found:
                raise CelError(f"Failed with repeated key: {key}")
            found[key] = value
        return found

    return build


def _comprehension(node: Comprehension, bound: frozenset[str]) -> Step:
    over = _compiled(node.range, bound)
    body = [_compiled(part, bound | set(node.names)) for part in node.body]
    macro, names = node.macro, node.names
    if macro in ("optMap", "optFlatMap"):
        return _optional_map(macro, over, names[0], body[0])

    def turns(scope: Scope) -> Iterator[tuple[Any, Scope]]:
        """The key and the scope of each turn."""
        items = over(scope)
        inner = dict(scope)
        budget = scope[_BUDGET]
        if isinstance(items, dict):
            pairs = iter(items.items())
        elif isinstance(items, list):
            pairs = iter(enumerate(items))
        else:
            raise CelError("no such overload")
        is_map = isinstance(items, dict)
        for key, value in pairs:
            budget.spend(1)
            if len(names) == 2:
                inner[names[0]] = key
            inner[names[-1]] = key if is_map and len(names) == 1 else value
            yield key, inner

    return _LOOPS[macro](turns, names[-1], body)


_Turns = Callable[[Scope], "Iterator[tuple[Any, Scope]]"]


def _quantified(turns: _Turns, body: list[Step], *, decisive: bool) -> Step:
    def decide(scope: Scope) -> bool:
        error: CelError | None = None
        for _, inner in turns(scope):
            try:
                value = body[0](inner)
            except CelError as caught:
                error = caught
                continue
            if value is decisive:
                return bool(decisive)
            if not isinstance(value, bool):
                error = CelError("no such overload")
        if error is not None:
            raise error
        return not decisive

    return decide


def _exists_one(turns: _Turns, _: str, body: list[Step]) -> Step:
    return lambda scope: sum(_truth(body[0], inner) for _, inner in turns(scope)) == 1


def _truth(step: Step, scope: Scope) -> bool:
    value = step(scope)
    if not isinstance(value, bool):
        raise CelError("no such overload")
    return value


def _filter(turns: _Turns, name: str, body: list[Step]) -> Step:
    return lambda scope: [inner[name] for _, inner in turns(scope) if _truth(body[0], inner)]


def _transform(turns: _Turns, _: str, body: list[Step]) -> Step:
    *tests, result = body
    return lambda scope: [
        result(inner) for _, inner in turns(scope) if all(_truth(test, inner) for test in tests)
    ]


def _transform_map(turns: _Turns, _: str, body: list[Step]) -> Step:
    *tests, result = body
    return lambda scope: {
        key: result(inner)
        for key, inner in turns(scope)
        if all(_truth(test, inner) for test in tests)
    }


_LOOPS: dict[str, Callable[[_Turns, str, list[Step]], Step]] = {
    "all": lambda turns, _, body: _quantified(turns, body, decisive=False),
    "exists": lambda turns, _, body: _quantified(turns, body, decisive=True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _transform,
    "transformList": _transform,
    "transformMap": _transform_map,
}


def _optional_map(macro: str, over: Step, name: str, body: Step) -> Step:
    def apply(scope: Scope) -> Optional:
        value = over(scope)
        if not isinstance(value, Optional):
            raise CelError("no such overload")
        if not value.present:
            return value
        result = body({**scope, name: value.value})
        if macro == "optMap":
            return Optional(result, present=True)
        if not isinstance(result, Optional):
            raise CelError("no such overload")
        return result

    return apply
