"""Rules that several kinds share: names, labels, selectors, ports, numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_NAME = re.compile("[a-z0-9-]+")
_WITH_VALUES = ("In", "NotIn")
_WITHOUT = ("DoesNotExist", "Exists")


def immutable(field: str, value: Any, before: Any) -> Iterator[Problem]:
    """What keeps a field from getting another value."""
    if value != before:
        yield problem.invalid(field, value, "field is immutable")


def dns_label(field: str, name: str) -> Iterator[Problem]:
    """What keeps a text from being one part of a DNS name."""
    yield from problem.unfit(field, name, names.label(name))


def required_label(field: str, name: str) -> Iterator[Problem]:
    """The same for a text that must be there."""
    if name:
        yield from dns_label(field, name)
    else:
        yield problem.required(field)


def items(
    field: str,
    found: list[Object] | None,
    limit: int,
    key: str,
    rule: Callable[[str, Object], Iterator[Problem]],
) -> Iterator[Problem]:
    """What is wrong with a list by itself and by this rule; what is too long is not gone through.

    No two items may have the same `key`.
    """
    found = found or []
    if len(found) > limit:
        yield problem.too_many(field, len(found), limit)
    seen: set[str] = set()
    for index, item in enumerate(found[:limit]):
        path = f"{field}[{index}]"
        yield from rule(path, item)
        name = item.get(key, "")
        if name in seen:
            yield problem.duplicate(path, name)
        seen.add(name)


def labels(field: str, found: dict[str, str]) -> Iterator[Problem]:
    """What is wrong with a map of labels."""
    for key, value in found.items():
        yield from problem.unfit(field, key, names.qualified_name(key))
        yield from problem.unfit(field, value, names.label_value(value))


def selector(field: str, found: Object) -> Iterator[Problem]:
    """What is wrong with a LabelSelector."""
    yield from labels(f"{field}.matchLabels", found.get("matchLabels") or {})
    for index, term in enumerate(found.get("matchExpressions") or ()):
        yield from requirement(f"{field}.matchExpressions[{index}]", term)


def requirement(field: str, found: Object, compared: tuple[str, ...] = ()) -> Iterator[Problem]:
    """What is wrong with a term of a selector; `compared` are operators that take one number."""
    operator, values = found.get("operator") or "", found.get("values") or []
    if operator in _WITH_VALUES and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        yield problem.required(f"{field}.values", detail)
    elif operator in _WITHOUT and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield problem.forbidden(f"{field}.values", detail)
    elif operator in compared and len(values) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield problem.required(f"{field}.values", detail)
    elif operator not in (*_WITH_VALUES, *_WITHOUT, *compared):
        yield problem.invalid(f"{field}.operator", operator, "not a valid selector operator")
    key = found.get("key") or ""
    yield from problem.unfit(f"{field}.key", key, names.qualified_name(key))
    for index, value in enumerate(values):
        yield from problem.unfit(f"{field}.values[{index}]", value, names.label_value(value))


def chooses(found: Object, given: dict[str, str]) -> bool:
    """Whether a LabelSelector chooses an object with these labels."""
    if any(given.get(key) != value for key, value in (found.get("matchLabels") or {}).items()):
        return False
    for term in found.get("matchExpressions") or ():
        key, values = term.get("key", ""), term.get("values") or []
        match term.get("operator"):
            case "In":
                holds = given.get(key) in values
            case "NotIn":
                holds = given.get(key) not in values
            case "Exists":
                holds = key in given
            case _:
                holds = key not in given
        if not holds:
            return False
    return True


def port_number(field: str, value: int) -> Iterator[Problem]:
    """What keeps a number from being a port."""
    if not 1 <= value <= 65535:
        yield problem.invalid(field, value, "must be between 1 and 65535, inclusive")


def port_or_name(field: str, value: int | str) -> Iterator[Problem]:
    """What keeps a value from saying which port of a container is meant."""
    if isinstance(value, int):
        yield from port_number(field, value)
    else:
        yield from port_name(field, value)


def port_name(field: str, name: str) -> Iterator[Problem]:
    """What keeps a text from being the name of a port."""
    if len(name) > 15:
        yield problem.invalid(field, name, "must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield problem.invalid(field, name, detail)
    elif not re.search("[a-z]", name):
        yield problem.invalid(field, name, "must contain at least one letter (a-z)")
    elif "--" in name:
        yield problem.invalid(field, name, "must not contain consecutive hyphens")
    elif name.startswith("-") or name.endswith("-"):
        yield problem.invalid(field, name, "must not begin or end with a hyphen")


def not_negative(obj: Object, path: str, *fields: str) -> Iterator[Problem]:
    """Numbers that may be left out, but not be below zero."""
    for field in fields:
        value = obj.get(field)
        if isinstance(value, int) and value < 0:
            detail = "must be greater than or equal to 0"
            yield problem.invalid(f"{path}.{field}", value, detail)
