"""The types of an expression, found before it ever runs.

`check` gives the type of the whole or raises with the place, in the words of cel-go: a field that
the schema does not have, a function that does not exist, operands that do not go together. A macro
is typed as the loop that it stands for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapilite.cel import library, literals  # noqa: F401 - library declares what can be called
from kapilite.cel.functions import OVERLOADS, Overload, declare_evaluated
from kapilite.cel.inference import Inference
from kapilite.cel.syntax import (
    Call,
    CelSyntaxError,
    Comprehension,
    Ident,
    Index,
    ListOf,
    Literal,
    MapOf,
    Node,
    Select,
    qualified,
    show,
)
from kapilite.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    TYPE_NAMES,
    UINT,
    ObjectType,
    Type,
    is_variable,
    kind_of,
    list_of,
    map_of,
    optional_of,
    parse_type,
    shown,
    type_of_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

declare_evaluated(
    "_?_:_(bool, A, A) A",
    "_[_](list(A), int) A",
    "_[_](map(A, B), A) B",
    "_[_](optional(list(A)), int) optional(A)",
    "_[_](optional(map(A, B)), A) optional(B)",
    "_[?_](list(A), int) optional(A)",
    "_[?_](map(A, B), A) optional(B)",
    "_[?_](optional(list(A)), int) optional(A)",
    "_[?_](optional(map(A, B)), A) optional(B)",
    "@mapInsert(map(A, B), A, B) map(A, B)",
    "@mapInsert(map(A, B), map(A, B)) map(A, B)",
)

_KEYS = (BOOL, INT, UINT, STRING, DYN)
_NAMES = {"@mapInsert": "cel.@mapInsert", "@in": "@in"}


class Checked(NamedTuple):
    """What is known of an expression, by the `id` of its nodes."""

    kind: Type
    types: dict[int, Type]
    overloads: dict[int, list[Overload]]
    """Those that a call may mean: more than one where types are not known."""


def check(text: str, node: Node, variables: Mapping[str, Type]) -> Type:
    """The type of an expression."""
    return checked(text, node, variables).kind


def checked(text: str, node: Node, variables: Mapping[str, Type]) -> Checked:
    """The types of an expression and of all its parts."""
    checker = _Checker(text, variables)
    checker.of(node, variables)
    found = checker.finished(node)
    literals.refuse_wrong(text, node, found.types)
    return found


class _Checker:
    def __init__(self, text: str, variables: Mapping[str, Type]) -> None:
        self._text = text
        self._variables = variables
        self._inference = Inference()
        self._types: dict[int, Type] = {}
        self._overloads: dict[int, list[Overload]] = {}

    def finished(self, node: Node) -> Checked:
        resolved = self._inference.resolved
        types = {at: resolved(kind, is_final=True) for at, kind in self._types.items()}
        return Checked(types[id(node)], types, self._overloads)

    def _error(self, node: Node, why: str) -> CelSyntaxError:
        return CelSyntaxError(show(self._text, node.at, why))

    def of(self, node: Node, scope: Mapping[str, Type]) -> Type:
        found = self._types[id(node)] = self._of(node, scope)
        return found

    def _of(self, node: Node, scope: Mapping[str, Type]) -> Type:
        match node:
            case Literal():
                return parse_type(kind_of(node.value))
            case Ident():
                return self._ident(node, scope)
            case Select():
                return self._select(node, scope)
            case Index():
                name = "_[?_]" if node.is_optional else "_[_]"
                types = [self.of(node.operand, scope), self.of(node.key, scope)]
                return self._overload(node, name, types, is_member=False)
            case Call():
                return self._call(node, scope)
            case ListOf():
                return list_of(self._elements(node, scope))
            case MapOf():
                return self._map(node, scope)
            case Comprehension():
                return self._comprehension(node, scope)

    def _ident(self, node: Ident, scope: Mapping[str, Type]) -> Type:
        found = scope.get(node.name) or self._type_named(node.name)
        is_hidden = node.is_global and scope.get(node.name) is not self._variables.get(node.name)
        if found is None or is_hidden:  # cel-go would find a variable behind that of a macro
            raise self._error(node, f"undeclared reference to '{node.name}' (in container '')")
        return found

    def _type_named(self, name: str) -> Type | None:
        return type_of_type(TYPE_NAMES[name]) if name in TYPE_NAMES else None

    def _select(self, node: Select, scope: Mapping[str, Type]) -> Type:
        name = qualified(node)
        named = self._type_named(name)
        if named is not None and name.split(".")[0] not in scope:
            return named
        operand = self._inference.resolved(self.of(node.operand, scope))
        was_optional = operand.name == "optional_type"
        if was_optional:
            operand = operand.params[0]
        found = self._field(node, operand)
        if node.is_test:
            return BOOL
        return optional_of(found) if was_optional or node.is_optional else found

    def _field(self, node: Select, operand: Type) -> Type:
        if isinstance(operand, ObjectType):
            if node.field not in operand.fields:
                raise self._error(node, f"undefined field '{node.field}'")
            return operand.fields[node.field]
        if operand.name == "map":
            return operand.params[1]
        if is_variable(operand):
            self._inference.assign([DYN], [operand])
        elif operand != DYN:
            why = f"type '{shown(operand)}' does not support field selection"
            raise self._error(node, why)
        return DYN

    def _call(self, node: Call, scope: Mapping[str, Type]) -> Type:
        name, target = node.function, node.target
        args = [self.of(arg, scope) for arg in node.args]
        if name in ("_&&_", "_||_"):
            for arg, found in zip(node.args, args, strict=True):
                self._must_be_bool(arg, found)
            return BOOL
        if target is not None and (full := f"{qualified(target)}.{name}") in OVERLOADS:
            name, target = full, None
        if target is not None:
            args.insert(0, self.of(target, scope))
        if name not in OVERLOADS:
            raise self._error(node, f"undeclared reference to '{name}' (in container '')")
        return self._overload(node, name, args, is_member=target is not None)

    def _must_be_bool(self, node: Node, found: Type) -> None:
        if not self._inference.assign([found], [BOOL]):
            raise self._error(node, f"expected type 'bool' but found '{self._shown(found)}'")

    def _shown(self, kind: Type) -> str:
        return shown(self._inference.resolved(kind, is_final=True))

    def _overload(self, node: Node, name: str, args: list[Type], *, is_member: bool) -> Type:
        result: Type | None = None
        matching = self._overloads[id(node)] = []
        for overload in OVERLOADS[name]:
            if overload.is_member != is_member or len(overload.params) != len(args):
                continue
            *params, made = self._inference.renamed((*overload.params, overload.result))
            if not self._inference.assign(args, params):
                continue
            matching.append(overload)
            made = self._inference.resolved(made)
            if result is None:
                result = made
            elif made != result:
                result = DYN
        if result is None:
            raise self._error(node, self._no_overload(name, args, is_member=is_member))
        return result

    def _no_overload(self, name: str, args: list[Type], *, is_member: bool) -> str:
        kinds = [self._shown(arg) for arg in args]
        told = ", ".join(kinds[1:] if is_member else kinds)
        applied = f"{kinds[0]}.({told})" if is_member else f"({told})"
        return f"found no matching overload for '{_NAMES.get(name, name)}' applied to '{applied}'"

    def _elements(self, node: ListOf, scope: Mapping[str, Type]) -> Type:
        found: Type | None = None
        for item, is_optional in node.items:
            one = self._entry(item, scope, is_optional=is_optional)
            found = one if found is None else self._joined(found, one)
        return found or self._inference.fresh()

    def _entry(self, node: Node, scope: Mapping[str, Type], *, is_optional: bool) -> Type:
        found = self.of(node, scope)
        if not is_optional:
            return found
        found = self._inference.resolved(found)
        if found.name != "optional_type":  # not even where it is dyn, of which cel-go dies
            told = self._shown(found)
            why = f"expected type 'optional_type({told})' but found '{told}'"
            raise self._error(node, why)
        return found.params[0]

    def _joined(self, before: Type, found: Type) -> Type:
        """The type of both; they must be the same but in arguments of `format`: see `literals`."""
        return self._inference.join(before, found) or DYN

    def _map(self, node: MapOf, scope: Mapping[str, Type]) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, is_optional in node.entries:
            one, two = self.of(key, scope), self._entry(value, scope, is_optional=is_optional)
            keys = one if keys is None else self._joined(keys, one)
            values = two if values is None else self._joined(values, two)
        if keys is None or values is None:
            return map_of(self._inference.fresh(), self._inference.fresh())
        kind = self._inference.resolved(keys)
        if kind not in _KEYS and not is_variable(
            kind
        ):  # cel-go accepts some more, and dies of others
            raise self._error(node, f"unsupported key type '{shown(kind)}'")
        return map_of(keys, values)

    def _comprehension(self, node: Comprehension, scope: Mapping[str, Type]) -> Type:
        over = self._inference.resolved(self.of(node.range, scope))
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_map(node, over, scope)
        key, value = self._members(node, over)
        bound = (key, value) if len(node.names) == 2 else (key if over.name == "map" else value,)
        inner = {**scope, **dict(zip(node.names, bound, strict=True))}
        *tests, body = [self.of(part, inner) for part in node.body]
        match node.macro:
            case "all" | "exists":
                self._must_be_bool(node.body[0], body)
                return BOOL
            case "exists_one" | "existsOne":
                self._overload(node, "_?_:_", [body, INT, INT], is_member=False)
                return BOOL
            case "filter":
                return self._loop(node, list_of(bound[0]), [body])
            case "transformMap":
                return self._loop(node, map_of(key, body), tests)
            case "transformMapEntry":
                return self._loop(node, body, tests)
            case "sortBy":
                name = "@sortByAssociatedKeys"
                return self._overload(node, name, [over, list_of(body)], is_member=True)
        return self._loop(node, list_of(body), tests)

    def _members(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """The types of the index or key, and of the value, of each turn."""
        if over.name == "map":
            return over.params[0], over.params[1]
        if over.name == "list":
            return INT, over.params[0]
        if is_variable(over):
            self._inference.assign([DYN], [over])
        elif over != DYN:
            why = (
                f"expression of type '{self._shown(over)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)"
            )
            raise self._error(node.range, why)
        return DYN, DYN

    def _loop(self, node: Comprehension, turn: Type, tests: list[Type]) -> Type:
        """The type of what is gathered, of which each turn makes a part."""
        if node.macro.startswith("transformMap"):
            start = map_of(self._inference.fresh(), self._inference.fresh())
            entry = node.macro == "transformMapEntry"
            args = [start, turn] if entry else [start, *turn.params]
            after = self._overload(node, "@mapInsert", args, is_member=False)
        else:
            start = list_of(self._inference.fresh())
            after = self._overload(node, "_+_", [start, turn], is_member=False)
        for test in tests:
            after = self._overload(node, "_?_:_", [test, after, start], is_member=False)
        if not self._inference.assign([start], [after]):
            why = f"expected type '{self._shown(start)}' but found '{self._shown(after)}'"
            raise self._error(node, why)
        return self._inference.resolved(start)

    def _optional_map(self, node: Comprehension, over: Type, scope: Mapping[str, Type]) -> Type:
        value = self._overload(node, "value", [over], is_member=True)
        result = self.of(node.body[0], {**scope, node.names[0]: value})
        if node.macro == "optMap":
            result = optional_of(result)
        none = optional_of(self._inference.fresh())
        return self._overload(node, "_?_:_", [BOOL, result, none], is_member=False)
