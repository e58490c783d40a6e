"""What Kubernetes refuses in a ResourceSlice of one device, or of the counters that some share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import rules
from kubebasics import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_ATTRIBUTES = 32
_COUNTERS, _CONSUMPTIONS = 32, 2
_TAINTS, _CONDITIONS, _CHOICES = 16, 4, 10
_DOMAIN, _IDENTIFIER, _TEXT = 63, 32, 64
_KEY = _DOMAIN + 1 + _IDENTIFIER

_VALUES = ("bool", "int", "string", "version")
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_C = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_C_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}"
    rf"(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def driver(field: str, name: str) -> Iterator[Problem]:
    """The name of a driver, which is a domain."""
    if not name:
        yield problem.required(field)
        return
    if len(name.encode()) > _DOMAIN:
        yield problem.too_long(field, _DOMAIN)
    yield from problem.unfit(field, name, names.subdomain(name.lower()))


def device(path: str, found: Object) -> Iterator[Problem]:
    """A device, but for the nodes where it is."""
    yield from rules.dns_label(f"{path}.name", found.get("name", ""))
    attributes, capacity = found.get("attributes") or {}, found.get("capacity") or {}
    if (total := len(attributes) + len(capacity)) > _ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES}"
        yield problem.invalid(path, total, detail)
    for key, value in attributes.items():
        yield from _key(f"{path}.attributes", key)
        yield from _attribute(f"{path}.attributes[{key}]", value)
    for key, value in capacity.items():
        yield from _key(f"{path}.capacity", key)
        if (policy := value.get("requestPolicy")) is not None:
            where = f"{path}.capacity[{key}].requestPolicy"
            if found.get("allowMultipleAllocations"):
                yield from _policy(where, policy, value.get("value", "0"))
            else:
                yield problem.forbidden(where, "allowMultipleAllocations must be true")
    taints = found.get("taints") or ()
    if len(taints) > _TAINTS:
        yield problem.too_many(f"{path}.taints", len(taints), _TAINTS)
    for index, taint in enumerate(taints[:_TAINTS]):
        yield from _taint(f"{path}.taints[{index}]", taint)
    consumed = found.get("consumesCounters")
    field = f"{path}.consumesCounters"
    yield from rules.items(field, consumed, _CONSUMPTIONS, "counterSet", _consumption)
    yield from binding(path, found)


def _taint(path: str, taint: Object) -> Iterator[Problem]:
    key, value = taint.get("key", ""), taint.get("value", "")
    yield from problem.unfit(f"{path}.key", key, names.qualified_name(key))
    yield from problem.unfit(f"{path}.value", value, names.label_value(value))
    effect = taint.get("effect", "")
    if not effect:
        yield problem.required(f"{path}.effect")
    elif effect not in _EFFECTS:
        yield problem.not_supported(f"{path}.effect", effect, _EFFECTS)


def binding(path: str, found: Object) -> Iterator[Problem]:
    """Conditions of a claim that a pod waits for, and those that end its waiting."""
    fields = "bindingConditions", "bindingFailureConditions"
    lists: list[list[str]] = [found.get(field) or [] for field in fields]
    for field, conditions in zip(fields, lists, strict=True):
        where = f"{path}.{field}"
        if len(conditions) > _CONDITIONS:
            yield problem.too_many(where, len(conditions), _CONDITIONS)
            continue
        for index, one in enumerate(conditions):
            yield from problem.unfit(f"{where}[{index}]", one, names.qualified_name(one))
            if one in conditions[:index]:
                yield problem.duplicate(f"{where}[{index}]", one)
            if field == fields[1] and one in lists[0]:
                detail = f"{fields[1]} must not overlap with {fields[0]}"
                yield problem.invalid(f"{where}[{index}]", one, detail)
    for lacking, given in (fields, fields[::-1]):
        if found.get(given) and not found.get(lacking):
            detail = f"{lacking} are required to use {given}"
            yield problem.invalid(f"{path}.{lacking}", found.get(lacking), detail)


def _attribute(path: str, attribute: Object) -> Iterator[Problem]:
    given = [field for field in _VALUES if attribute.get(field) is not None]
    if len(given) != 1:
        shown = attribute if given else ""
        yield problem.invalid(path, shown, "exactly one value must be specified")
    for field in ("string", "version"):
        text = attribute.get(field)
        if text is None:
            continue
        if field == "version" and not _VERSION.fullmatch(text):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            yield problem.invalid(f"{path}.version", text, detail)
        if len(text.encode()) > _TEXT:
            yield problem.too_long(f"{path}.{field}", _TEXT)


def _key(path: str, key: str) -> Iterator[Problem]:
    """`memory`, or `example.com/memory`."""
    yield from attribute_name(f"{path}[{key}]" if len(key) <= _KEY else path, key)


def attribute_name(field: str, key: str) -> Iterator[Problem]:
    """The name of an attribute, with its domain or without."""
    domain, slash, name = key.rpartition("/")
    if "/" in domain:
        yield problem.invalid(field, key, "must not contain more than one slash")
        return
    if slash and not domain:
        yield problem.invalid(field, "", "the domain must not be empty")
    elif slash:
        yield from driver(field, domain)
    if slash and not name:
        yield problem.invalid(field, "", "the name must not be empty")
        return
    if len(name.encode()) > _IDENTIFIER:
        yield problem.too_long(field, _IDENTIFIER)
    if not _C.fullmatch(name):
        yield problem.invalid(field, name, _C_TEXT)


# ------------------------------------------------------------------- how a capacity is shared


def _policy(path: str, policy: Object, capacity: str) -> Iterator[Problem]:
    """The amounts that requests may take of a capacity: some, or a range."""
    values, bounds = policy.get("validValues") or [], policy.get("validRange")
    default = policy.get("default")
    if values and bounds is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and '
        yield problem.forbidden(path, detail + '"validRange" at the same time')
    elif default is None:
        if values or bounds is not None:
            field = "validValues" if values else "validRange"
            yield problem.required(f"{path}.default", f"required when {field} is defined")
    elif values:
        yield from _choices(f"{path}.validValues", values, default, capacity)
    elif bounds is not None:
        yield from _range(f"{path}.validRange", bounds, default, capacity)


def _choices(field: str, values: list[str], default: str, capacity: str) -> Iterator[Problem]:
    amounts = [quantity.value(one) for one in values]
    for index in range(1, len(values)):
        if amounts[index - 1] > amounts[index]:
            detail = "values must be sorted in ascending order"
            yield problem.invalid(f"{field}[{index}]", values[index], detail)
    if len(values) > _CHOICES:
        yield problem.too_many(field, len(values), _CHOICES)
        amounts = []
    for index, amount in enumerate(amounts):
        if amount > quantity.value(capacity):
            detail = f"option is larger than capacity value: {capacity}"
            yield problem.invalid(f"{field}[{index}]", values[index], detail)
        if _whole(values[index]) in map(_whole, values[:index]):
            yield problem.duplicate(f"{field}[{index}]", str(_whole(values[index])))
    if quantity.value(default) not in amounts:
        detail = "default value is not valid according to the requestPolicy"
        yield problem.invalid(field, default, detail)


def _range(path: str, bounds: Object, default: str, capacity: str) -> Iterator[Problem]:
    least, most, step = (bounds.get(field) for field in ("min", "max", "step"))
    if least is None:
        yield problem.required(f"{path}.min", "required when validRange is defined")
        return
    bounded = (
        (least, capacity, "min", least, f"min is larger than capacity value: {capacity}"),
        (least, default, "default", default, f"default is less than min: {least}"),
        (least, most, "max", least, f"min is larger than max: {most}"),
        (most, capacity, "max", most, f"max is larger than capacity value: {capacity}"),
        (default, most, "default", default, f"default is more than max: {most}"),
    )
    for low, high, field, shown, detail in bounded:
        if low is not None and high is not None and quantity.value(low) > quantity.value(high):
            yield problem.invalid(f"{path}.{field}", shown, detail)
    if step is not None:
        yield from _steps(f"{path}.step", step, least, [default, most], capacity)


def _steps(
    field: str, step: str, least: str, reached: list[str | None], capacity: str
) -> Iterator[Problem]:
    if quantity.value(step) <= 0:
        yield problem.invalid(field, step, "must be greater than zero")
        return
    if quantity.value(least) + quantity.value(step) > quantity.value(capacity):
        added = _whole(least) + _whole(step)
        binary = least.endswith("i") and added % 1024 == 0
        text = quantity.canonical(f"{added // 1024}Ki" if binary else f"{added}")
        detail = f"one step {text} is larger than capacity value: {capacity}"
        yield problem.invalid(field, step, detail)
    for one in reached:
        if one is not None and (_whole(one) - _whole(least)) % _whole(step):
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            yield problem.invalid(field, one, detail)


def _whole(text: str) -> int:
    """An amount as a whole number, rounded up."""
    return -(-quantity.value(text) // quantity.NANO)


# --------------------------------------------------------------------------------- counters


def counter_set(path: str, counters: Object) -> Iterator[Problem]:
    """Counters that devices of the pool share."""
    yield from rules.required_label(f"{path}.name", counters.get("name", ""))
    yield from _counters(f"{path}.counters", counters.get("counters") or {})


def _consumption(path: str, consumption: Object) -> Iterator[Problem]:
    yield from rules.required_label(f"{path}.counterSet", consumption.get("counterSet", ""))
    yield from _counters(f"{path}.counters", consumption.get("counters") or {})


def _counters(path: str, counters: Object) -> Iterator[Problem]:
    if not counters:
        yield problem.required(path)
    elif len(counters) > _COUNTERS:
        yield problem.too_many(path, len(counters), _COUNTERS)
    else:
        for name in counters:
            yield from rules.dns_label(f"{path}[{name}]", name)
