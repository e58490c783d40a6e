"""An expression made ready to run, and run within a budget.

The tree becomes nested closures once. Every call, selection and turn of a loop takes from the
budget, long texts and lists more; when it is used up the evaluation ends with `CostExceeded`, so
that no rule can hold up the server. `&&`, `||`, `all` and `exists` forgive an error where the other
side decides, as CEL has it.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from kapilite.cel import library, loops  # noqa: F401 - library declares what can be called
from kapilite.cel.functions import OVERLOADS, find
from kapilite.cel.loops import BUDGET, Scope, Step
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
    qualified,
)
from kapilite.cel.types import TYPE_NAMES, kind_of
from kapilite.cel.values import CelError, Optional, TypeValue, UInt, has_key

if TYPE_CHECKING:
    from collections.abc import Callable

CALL_LIMIT = 1_000_000
"""What one evaluation may cost; Kubernetes' own limit."""


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
        value = self._run({**variables, BUDGET: budget})
        if isinstance(value, CelError):
            raise value
        return value


@functools.lru_cache(maxsize=2048)
def program(text: str) -> Program:
    """The program of an expression; CelSyntaxError where it is none."""
    return Program(text)


def constant(node: Node) -> Any:
    """The value of an expression without variables, or CelError or CostExceeded."""
    return _compiled(node, frozenset())({BUDGET: Budget(CALL_LIMIT)})


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
        scope[BUDGET].spend(1)
        was_optional = isinstance(value, Optional)
        if was_optional:
            if not value.present:
                return False if is_test else value
            value = value.value
        if is_test and not isinstance(value, list):
            return isinstance(value, dict) and field in value
        return _member(value, field, is_optional=is_optional or was_optional)

    return select


def _index(node: Index, bound: frozenset[str]) -> Step:
    operand, index = _compiled(node.operand, bound), _compiled(node.key, bound)
    wants_optional = node.is_optional

    def look_up(scope: Scope) -> Any:
        value, key = operand(scope), index(scope)
        scope[BUDGET].spend(1)
        is_optional = wants_optional
        if isinstance(value, Optional):
            if not value.present:
                return value
            value, is_optional = value.value, True
        return _member(value, key, is_optional=is_optional)

    return look_up


def _member(value: Any, key: Any, *, is_optional: bool) -> Any:
    """What is there under a key or an index; asked for optionally, no value has members."""
    if not isinstance(key, str | int | float | bool):
        raise CelError(f"invalid qualifier type: {kind_of(key)}")
    if isinstance(value, list):
        key = _position(key)
        is_there = 0 <= key < len(value)
    else:
        is_there = isinstance(value, dict) and has_key(value, key)
    if not is_there:
        if is_optional:
            return Optional()
        raise CelError(
            f"{'index out of bounds' if isinstance(value, list) else 'no such key'}: {key}"
        )
    found = value[key]
    if isinstance(found, CelError):
        raise found
    return Optional(found, present=True) if is_optional else found


def _position(key: Any) -> int:
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(key, bool) or not isinstance(key, int):
        raise CelError(f"unsupported index type '{kind_of(key)}' in list")
    return key


def _call(node: Call, bound: frozenset[str]) -> Step:
    name, target = node.function, node.target
    if name == "@in" and node.args[1] == ListOf((), node.args[1].at):
        return lambda _: False  # not even evaluated
    args = tuple(_compiled(arg, bound) for arg in node.args)
    match name:
        case "_&&_":
            return _logic(args, decisive=False)
        case "_||_":
            return _logic(args, decisive=True)
        case "_?_:_":
            return _choice(*args)
    if target is not None and (full := f"{qualified(target)}.{name}") in OVERLOADS:
        name, target = full, None
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
        budget = scope[BUDGET]
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
        scope[BUDGET].spend(1)
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
        scope[BUDGET].spend(1)
        value = test(scope)
        if not isinstance(value, bool):
            raise CelError("no such overload")
        return yes(scope) if value else no(scope)

    return choose


def _list(node: ListOf, bound: frozenset[str]) -> Step:
    items = [(_compiled(item, bound), is_optional) for item, is_optional in node.items]

    def build(scope: Scope) -> list[Any]:
        scope[BUDGET].spend(1 + len(items))
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
        scope[BUDGET].spend(1 + len(entries))
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
            found[key] = value
        return found

    return build


def _comprehension(node: Comprehension, bound: frozenset[str]) -> Step:
    body = [_compiled(part, bound | set(node.names)) for part in node.body]
    return loops.step(node.macro, _compiled(node.range, bound), node.names, body)
