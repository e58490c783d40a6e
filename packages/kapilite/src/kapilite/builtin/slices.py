"""What Kubernetes refuses in a ResourceSlice of `resource.k8s.io/v1`.

The rules that a driver runs into: whose a slice is may not change, names and keys must fit, and
everything that a scheduler goes through is bounded. Whether counters that a device consumes exist
is no rule: they stand in another slice of the pool, and a scheduler that misses them does not
allocate the device.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_DEVICES, _DEVICES_WITH_MORE = 128, 64
_ATTRIBUTES = 32
_COUNTER_SETS, _COUNTERS, _CONSUMPTIONS = 8, 32, 2
_TAINTS = 16
_DOMAIN, _POOL, _IDENTIFIER, _TEXT = 63, 253, 32, 64

_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF_NODES = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_OF_DEVICE = ("nodeName", "nodeSelector", "allNodes")
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


def resource_slice(obj: Object, old: Object | None) -> Iterator[Problem]:
    """Devices of one driver's pool, or counters that they share."""
    spec = obj.get("spec") or {}
    yield from _driver("spec.driver", spec.get("driver", ""))
    yield from _pool(spec.get("pool") or {})
    if old is not None:
        before = old.get("spec") or {}
        yield from rules.immutable("spec.pool.name", _pool_name(spec), _pool_name(before))
        for field in ("driver", "nodeName"):
            yield from rules.immutable(f"spec.{field}", spec.get(field), before.get(field))
    yield from _where(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices and counters:
        detail = "only one of `sharedCounters` or `devices` is allowed"
        yield problem.invalid("spec", "", detail)
    more = any(one.get("taints") or one.get("consumesCounters") for one in devices or ())
    limit = _DEVICES_WITH_MORE if more else _DEVICES
    yield from rules.items("spec.devices", devices, limit, "name", _device)
    apart = bool(spec.get("perDeviceNodeSelection"))
    for index, one in enumerate((devices or ())[:limit]):
        yield from _device_node(f"spec.devices[{index}]", one, apart=apart)
    yield from rules.items("spec.sharedCounters", counters, _COUNTER_SETS, "name", _counter_set)


def _pool_name(spec: Object) -> str:
    return (spec.get("pool") or {}).get("name") or ""


def _driver(field: str, name: str) -> Iterator[Problem]:
    if not name:
        yield problem.required(field)
    elif len(name) > _DOMAIN:
        yield problem.too_long(field, _DOMAIN)
    else:
        yield from problem.unfit(field, name, names.subdomain(name.lower()))


def _pool(pool: Object) -> Iterator[Problem]:
    name = pool.get("name") or ""
    if not name:
        yield problem.required("spec.pool.name")
    elif len(name) > _POOL:
        yield problem.too_long("spec.pool.name", _POOL)
    else:
        for part in name.split("/"):
            yield from problem.unfit("spec.pool.name", part, names.subdomain(part))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield problem.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        detail = "must be greater than or equal to zero"
        yield problem.invalid("spec.pool.generation", generation, detail)


def _where(spec: Object) -> Iterator[Problem]:
    """The nodes that can use the devices are said in one way."""
    yield from _said("spec", spec, _NODES, "must be either unset or set to a non-empty string")
    given = [field for field in _NODES if spec.get(field) not in (None, "", False)]
    if not given:
        yield problem.required("spec", _ONE_OF_NODES)
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{field}`" for field in given) + "}"
        detail = f"{_ONE_OF_NODES}, but multiple fields are set"
        yield problem.invalid("spec", shown, detail)
    selector = spec.get("nodeSelector")
    if selector is not None and len(selector.get("nodeSelectorTerms") or ()) != 1:
        terms = selector.get("nodeSelectorTerms") or []
        detail = "must have exactly one node selector term"
        yield problem.invalid("spec.nodeSelector.nodeSelectorTerms", terms, detail)


def _said(path: str, obj: Object, fields: tuple[str, ...], empty_name: str) -> Iterator[Problem]:
    for field in fields:
        value = obj.get(field)
        if field == "nodeName" and value is not None:
            if value:
                yield from problem.unfit(f"{path}.{field}", value, names.subdomain(value))
            else:
                yield problem.invalid(f"{path}.{field}", value, empty_name)
        elif value is False:
            detail = "must be either unset or set to true"
            yield problem.invalid(f"{path}.{field}", value, detail)


def _device_node(path: str, device: Object, *, apart: bool) -> Iterator[Problem]:
    given = [field for field in _OF_DEVICE if device.get(field) is not None]
    every = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    every += "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    if given and not apart:
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        yield problem.invalid(path, None, detail)
    elif apart and not given:
        yield problem.required(path, every)
    elif apart:
        yield from _said(path, device, _OF_DEVICE, "must not be empty")
        if len(given) > 1:
            shown = "{" + ", ".join(f"`{field}`" for field in given) + "}"
            yield problem.invalid(path, shown, every)


def _device(path: str, device: Object) -> Iterator[Problem]:
    yield from rules.required_label(f"{path}.name", device.get("name", ""))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (total := len(attributes) + len(capacity)) > _ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES}"
        yield problem.invalid(path, total, detail)
    for key, value in attributes.items():
        yield from _key(f"{path}.attributes", key)
        yield from _attribute(f"{path}.attributes[{key}]", value)
    for key, value in capacity.items():
        yield from _key(f"{path}.capacity", key)
        if value.get("requestPolicy") and not device.get("allowMultipleAllocations"):
            where = f"{path}.capacity[{key}].requestPolicy"
            yield problem.forbidden(where, "allowMultipleAllocations must be true")
    taints = device.get("taints") or ()
    if len(taints) > _TAINTS:
        yield problem.too_many(f"{path}.taints", len(taints), _TAINTS)
    for index, taint in enumerate(taints[:_TAINTS]):
        yield from _taint(f"{path}.taints[{index}]", taint)
    consumed = device.get("consumesCounters")
    field = f"{path}.consumesCounters"
    yield from rules.items(field, consumed, _CONSUMPTIONS, "counterSet", _consumption)


def _taint(path: str, taint: Object) -> Iterator[Problem]:
    key, value = taint.get("key", ""), taint.get("value", "")
    yield from problem.unfit(f"{path}.key", key, names.qualified_name(key))
    yield from problem.unfit(f"{path}.value", value, names.label_value(value))
    effect = taint.get("effect", "")
    if not effect:
        yield problem.required(f"{path}.effect")
    elif effect not in _EFFECTS:
        yield problem.not_supported(f"{path}.effect", effect, _EFFECTS)


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
    field = f"{path}[{key}]" if len(key) <= _DOMAIN + 1 + _IDENTIFIER else path
    domain, slash, name = key.partition("/")
    if not slash:
        domain, name = "", key
    elif "/" in name:
        yield problem.invalid(field, key, "must not contain more than one slash")
        return
    elif not domain:
        yield problem.invalid(field, "", "the domain must not be empty")
    else:
        yield from _driver(field, domain)
    if slash and not name:
        yield problem.invalid(field, "", "the name must not be empty")
    elif len(name) > _IDENTIFIER:
        yield problem.too_long(field, _IDENTIFIER)
    elif not _C.fullmatch(name):
        yield problem.invalid(field, name, _C_TEXT)


def _counter_set(path: str, counters: Object) -> Iterator[Problem]:
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
