"""The numbers that the scale subresource of a custom resource reads from its objects.

A schema need not say what they are, so Kubernetes holds them against rules of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.kinds import Scale
    from kapilite.problems import Problem

_MOST = 2**31 - 1


def problems(scale: Scale, obj: dict[str, Any]) -> Iterator[Problem]:
    """What keeps the scale of an object from being shown."""
    for path in (scale.spec_replicas, scale.status_replicas):
        yield from _number(obj, path)
    if scale.label_selector:
        yield from _text(obj, scale.label_selector)


def _number(obj: dict[str, Any], path: tuple[str, ...]) -> Iterator[Problem]:
    field = _field(path)
    try:
        value = _at(obj, path, 0)
    except TypeError as error:
        yield problem.invalid(field, 0, str(error))
        return
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not -(2**63) <= value < 2**63:
        yield problem.invalid(field, 0, _accessor(path, "int64"))
    elif value < 0:
        yield problem.invalid(field, value, "should be a non-negative integer")
    elif value > _MOST:
        yield problem.invalid(field, value, f"should be less than or equal to {_MOST}")


def _text(obj: dict[str, Any], path: tuple[str, ...]) -> Iterator[Problem]:
    field = _field(path)
    try:
        value = _at(obj, path, "")
    except TypeError as error:
        yield problem.invalid(field, "", str(error))
        return
    if not isinstance(value, str):
        yield problem.invalid(field, "", _accessor(path, "string"))


def _at(obj: Any, path: tuple[str, ...], absent: Any) -> Any:
    """The value at a path; TypeError where a part of it is no object."""
    found = obj
    for index, name in enumerate(path):
        if found is None:
            return absent
        if not isinstance(found, dict):
            why = _accessor(path[:index], "map[string]interface {}")
            raise TypeError(why)
        if name not in found:
            return absent
        found = found[name]
    return found


def _field(path: tuple[str, ...]) -> str:
    return "".join(f".{name}" for name in path)


def _accessor(path: tuple[str, ...], wanted: str) -> str:
    return f"{_field(path)} accessor error: the value is of another type, expected {wanted}"
