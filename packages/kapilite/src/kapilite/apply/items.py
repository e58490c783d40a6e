"""How the items of a set or a map list are identified, and what is wrong with a value.

Texts are those of Kubernetes, its way of printing Go values included: people search for them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kapilite.apply import elements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.apply.types import ListType, Type


class SchemaMismatch(ValueError):  # noqa: N818 - named for what it is
    """A value that its schema does not allow."""


def element_of(kind: ListType, item: Any) -> str:
    """The step of a path that leads to this item of an associative list."""
    if kind.keys:
        if item is None:
            raise SchemaMismatch("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise SchemaMismatch("associative list with keys may not have non-map elements")
        pairs = [
            (name, item[name] if name in item else kind.defaults[name])
            for name in kind.keys
            if name in item or name in kind.defaults
        ]
        if not pairs:
            names = " ".join(map(_quoted, kind.keys))
            raise SchemaMismatch(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return elements.key(pairs)
    if isinstance(item, dict):
        raise SchemaMismatch("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise SchemaMismatch("not supported: associative list with lists as elements")
    if item is None:
        raise SchemaMismatch("associative list without keys has an element that's an explicit null")
    return elements.value(item)


def elements_of(kind: ListType, items: list[Any]) -> list[str]:
    found = []
    for index, item in enumerate(items):
        try:
            found.append(element_of(kind, item))
        except SchemaMismatch as error:
            raise SchemaMismatch(f"element {index}: {error}") from None
    return found


def check(kind: Type, value: Any) -> None:
    """Raise SchemaMismatch with everything that is wrong with an applied value."""
    found = [f"{path}: {text}" if path else text for path, text in problems(kind, value)]
    if len(found) == 1:
        raise SchemaMismatch(found[0])
    if found:
        raise SchemaMismatch("\n".join(["errors:", *(f"  {text}" for text in found)]))


def problems(kind: Type, value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if value is None:
        return
    match kind.form(value):
        case "scalar":
            if text := scalar_problem(kind, value):
                yield path, text
        case "list":
            yield from _list_problems(kind, value, path)
        case _:
            yield from _map_problems(kind, value, path)


def scalar_problem(kind: Type, value: Any) -> str:
    """Empty when the value fits."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind.scalar:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {_type(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_source(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{_printed(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{_printed(value)}}}"
    return ""


def _map_problems(kind: Type, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield path, f"expected map, got &{{{_printed(value)}}}"
        return
    assert kind.map  # noqa: S101 - the form of the value
    for name, child in value.items():
        sub = kind.map.fields.get(name, kind.map.element)
        if sub is None:
            yield f"{path}.{name}", "field not declared in schema"
            return
        yield from problems(sub, child, f"{path}.{name}")


def _list_problems(kind: Type, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, list):
        yield path, f"expected list, got &{{{_printed(value)}}}"
        return
    assert kind.list  # noqa: S101 - the form of the value
    seen = set()
    for index, item in enumerate(value):
        step = f"[{index}]"
        if kind.list.associative:
            try:
                element = element_of(kind.list, item)
            except SchemaMismatch as error:
                yield path, f"element {index}: {error}"
                return
            step = elements.shown(element)
            if element in seen:
                yield path, f"duplicate entries for key {step}"
            seen.add(element)
        yield from problems(kind.list.element, item, f"{path}{step}")


def _type(value: Any) -> str:
    """As Go's %T."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
    return "map[string]interface {}"


def _printed(value: Any) -> str:
    """As Go's %v."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{' '.join(map(_printed, value))}]"
        case dict():
            return f"map[{' '.join(f'{k}:{_printed(value[k])}' for k in sorted(value))}]"
    return str(value)


def _source(value: Any) -> str:
    """As Go's %#v."""
    match value:
        case None:
            return "interface {}(nil)"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case list():
            return f"[]interface {{}}{{{', '.join(map(_source, value))}}}"
        case dict():
            inner = ", ".join(f"{_quoted(k)}:{_source(value[k])}" for k in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
