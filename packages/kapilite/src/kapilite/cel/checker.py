"""The types of an expression, found before it ever runs.

`check` gives the type of the whole or raises with the place, in the words of cel-go: a field that
the schema does not have, a function that does not exist, operands that do not go together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.cel import kubernetes, lists, strings  # noqa: F401 - they declare functions
from kapilite.cel.functions import NAMESPACES, OVERLOADS
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
    show,
)
from kapilite.cel.types import (
    BOOL,
    DYN,
    INT,
    TYPE,
    ObjectType,
    Type,
    fits,
    joined,
    kind_of,
    list_of,
    map_of,
    optional_of,
    parse_type,
    resolved,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPE_NAMES = {
    **{name: name for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map")},
    **{name: name for name in ("null_type", "type", "optional_type")},
    **{
        name: name
        for name in (
            "google.protobuf.Timestamp",
            "google.protobuf.Duration",
            "net.IP",
            "net.CIDR",
            "kubernetes.Quantity",
            "kubernetes.URL",
        )
    },
}


def qualified(node: Node) -> str:
    """The dotted name that a chain of selections spells; empty for anything else."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.is_test and not node.is_optional:
        before = qualified(node.operand)
        return f"{before}.{node.field}" if before else ""
    return ""


def check(text: str, node: Node, variables: Mapping[str, Type]) -> Type:
    """The type of an expression."""
    return _Checker(text).of(node, variables)


class _Checker:
    def __init__(self, text: str) -> None:
        self._text = text

    def _error(self, node: Node, why: str) -> CelSyntaxError:
        return CelSyntaxError(show(self._text, node.at, why))

    def of(self, node: Node, scope: Mapping[str, Type]) -> Type:
        match node:
            case Literal():
                return parse_type(kind_of(node.value))
            case Ident():
                return self._ident(node, scope)
            case Select():
                return self._select(node, scope)
            case Index():
                return self._index(node, scope)
            case Call():
                return self._call(node, scope)
            case ListOf():
                return list_of(self._elements(node, scope))
            case MapOf():
                return self._map(node, scope)
            case Comprehension():
                return self._comprehension(node, scope)

    def _ident(self, node: Ident, scope: Mapping[str, Type]) -> Type:
        found = scope.get(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            return TYPE
        raise self._error(node, f"undeclared reference to '{node.name}' (in container '')")

    def _select(self, node: Select, scope: Mapping[str, Type]) -> Type:
        name = qualified(node)
        if name in TYPE_NAMES and name.split(".")[0] not in scope:
            return TYPE
        operand = self.of(node.operand, scope)
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
        if operand == DYN:
            return DYN
        raise self._error(node, f"type '{operand}' does not support field selection")

    def _index(self, node: Index, scope: Mapping[str, Type]) -> Type:
        operand = self.of(node.operand, scope)
        index = self.of(node.key, scope)
        was_optional = operand.name == "optional_type"
        if was_optional:
            operand = operand.params[0]
        found: Type | None = None
        if operand == DYN:
            found = DYN
        elif operand.name == "list" and index in (INT, DYN):
            found = operand.params[0]
        elif operand.name == "map" and fits(operand.params[0], index, {}):
            found = operand.params[1]
        if found is None:
            raise self._error(node, _no_overload("_[_]", (operand, index), is_member=False))
        return optional_of(found) if was_optional or node.is_optional else found

    def _call(self, node: Call, scope: Mapping[str, Type]) -> Type:
        name, target = node.function, node.target
        prefix = qualified(target) if target is not None else ""
        if target is not None and prefix in NAMESPACES and prefix not in scope:
            name, target = f"{prefix}.{name}", None
        self._known(node, name)
        args = [self.of(arg, scope) for arg in node.args]
        if name in ("_&&_", "_||_"):
            for arg in args:
                if arg not in (BOOL, DYN):
                    raise self._error(node, _no_overload(name, tuple(args), is_member=False))
            return BOOL
        if name == "_?_:_":
            return self._choice(node, args)
        is_member = target is not None
        if target is not None:
            args.insert(0, self.of(target, scope))
        return self._overload(node, name, args, is_member=is_member)

    def _known(self, node: Call, name: str) -> None:
        if name not in OVERLOADS and name not in ("_&&_", "_||_", "_?_:_"):
            raise self._error(node, f"undeclared reference to '{name}' (in container '')")

    def _choice(self, node: Call, args: list[Type]) -> Type:
        together = joined(args[1], args[2])
        if args[0] not in (BOOL, DYN) or together is None:
            raise self._error(node, _no_overload("_?_:_", tuple(args), is_member=False))
        return together

    def _overload(self, node: Call, name: str, args: list[Type], *, is_member: bool) -> Type:
        if name in ("_==_", "_!=_"):
            if joined(args[0], args[1]) is None:
                raise self._error(node, _no_overload(name, tuple(args), is_member=False))
            return BOOL
        results: list[Type] = []
        for overload in OVERLOADS[name]:
            bound: dict[str, Type] = {}
            if (
                overload.is_member == is_member
                and len(overload.params) == len(args)
                and all(fits(a, b, bound) for a, b in zip(overload.params, args, strict=True))
            ):
                results.append(resolved(overload.result, bound))
        if not results:
            raise self._error(node, _no_overload(name, tuple(args), is_member=is_member))
        return results[0] if all(result == results[0] for result in results) else DYN

    def _elements(self, node: ListOf, scope: Mapping[str, Type]) -> Type:
        found: Type | None = None
        for item, is_optional in node.items:
            one = self._entry(item, scope, is_optional=is_optional)
            found = one if found is None else self._same(item, found, one)
        return found or DYN

    def _entry(self, node: Node, scope: Mapping[str, Type], *, is_optional: bool) -> Type:
        found = self.of(node, scope)
        if not is_optional or found == DYN:
            return found
        if found.name != "optional_type":
            why = f"expected type 'optional_type({found})' but found '{found}'"
            raise self._error(node, why)
        return found.params[0]

    def _same(self, node: Node, before: Type, found: Type) -> Type:
        # Kubernetes wants the members of a literal to be of one type.
        together = joined(before, found)
        if together is None:
            raise self._error(node, f"expected type '{before}' but found '{found}'")
        return together

    def _map(self, node: MapOf, scope: Mapping[str, Type]) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, is_optional in node.entries:
            one, two = self.of(key, scope), self._entry(value, scope, is_optional=is_optional)
            keys = one if keys is None else self._same(key, keys, one)
            values = two if values is None else self._same(value, values, two)
        return map_of(keys or DYN, values or DYN)

    def _comprehension(self, node: Comprehension, scope: Mapping[str, Type]) -> Type:
        over = self.of(node.range, scope)
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_map(node, over, scope)
        if over.name not in ("list", "map", "dyn"):
            why = (
                f"expression of type '{over}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)"
            )
            raise self._error(node.range, why)
        params = over.params or (DYN, DYN)
        bound = (
            params[:1]
            if len(node.names) == 1
            else (params if over.name == "map" else (INT, params[0]))
        )
        inner = {**scope, **dict(zip(node.names, bound, strict=False))}
        types = [self.of(part, inner) for part in node.body]
        for part, found in zip(node.body, types, strict=True):
            is_result = part is node.body[-1] and node.macro in (
                "map",
                "transformList",
                "transformMap",
            )
            if not is_result and found not in (BOOL, DYN):
                raise self._error(part, f"expected type 'bool' but found '{found}'")
        match node.macro:
            case "map" | "transformList":
                return list_of(types[-1])
            case "filter":
                return list_of(params[0])
            case "transformMap":
                return map_of(params[0] if over.name == "map" else INT, types[-1])
        return BOOL

    def _optional_map(self, node: Comprehension, over: Type, scope: Mapping[str, Type]) -> Type:
        if over.name not in ("optional_type", "dyn"):
            raise self._error(node, _no_overload(node.macro, (over,), is_member=True))
        value = over.params[0] if over.params else DYN
        result = self.of(node.body[0], {**scope, node.names[0]: value})
        if node.macro == "optMap":
            return optional_of(result)
        if result.name not in ("optional_type", "dyn"):
            raise self._error(node.body[0], f"expected type 'optional_type' but found '{result}'")
        return result


def _no_overload(name: str, args: tuple[Type, ...], *, is_member: bool) -> str:
    shown = ", ".join(map(str, args[1:] if is_member else args))
    applied = f"{args[0]}.({shown})" if is_member else f"({shown})"
    return f"found no matching overload for '{name}' applied to '{applied}'"
