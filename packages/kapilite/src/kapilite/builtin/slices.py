"""What Kubernetes refuses in a ResourceSlice of `resource.k8s.io/v1`.

All of its rules, as of 1.36, so that a driver meets them here and not first in a cluster: whose a
slice is may not change, names and keys must fit, and everything that a scheduler goes through is
bounded. Fields behind gates that are on by default are judged; what is alpha is not kept at all.
What a slice says of one device is judged in `slices_devices`.

Whether counters that a device consumes exist is no rule: they stand in another slice of the pool,
and a scheduler that misses them does not allocate the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import rules, slices_devices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_DEVICES, _DEVICES_WITH_MORE = 128, 64
_COUNTER_SETS = 8
_POOL = 253

_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF_NODES = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_OF_DEVICE = ("nodeName", "nodeSelector", "allNodes")
_ONE_OF_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NOT_APART = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
    "to true in the ResourceSlice spec"
)
_IN, _COMPARED = ("In", "NotIn"), ("Gt", "Lt")


def resource_slice(obj: Object, old: Object | None) -> Iterator[Problem]:
    """Devices of one driver's pool, or counters that they share."""
    spec = obj.get("spec") or {}
    yield from slices_devices.driver("spec.driver", spec.get("driver", ""))
    yield from _pool(spec.get("pool") or {})
    if old is not None:
        before = old.get("spec") or {}
        yield from rules.immutable("spec.pool.name", _pool_name(spec), _pool_name(before))
        for field in ("driver", "nodeName"):
            yield from rules.immutable(f"spec.{field}", spec.get(field), before.get(field))
    yield from _where(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        detail = "only one of `sharedCounters` or `devices` is allowed"
        yield problem.invalid("spec", "", detail)
    more = any(one.get("taints") or one.get("consumesCounters") for one in devices or ())
    limit = _DEVICES_WITH_MORE if more else _DEVICES
    yield from rules.items("spec.devices", devices, limit, "name", slices_devices.device)
    apart = bool(spec.get("perDeviceNodeSelection"))
    for index, one in enumerate((devices or ())[:limit]):
        yield from _device_node(f"spec.devices[{index}]", one, apart=apart)
    counter_set = slices_devices.counter_set
    yield from rules.items("spec.sharedCounters", counters, _COUNTER_SETS, "name", counter_set)


def _pool_name(spec: Object) -> str:
    return (spec.get("pool") or {}).get("name") or ""


def _pool(pool: Object) -> Iterator[Problem]:
    yield from pool_name("spec.pool.name", pool.get("name") or "")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield problem.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        detail = "must be greater than or equal to zero"
        yield problem.invalid("spec.pool.generation", generation, detail)


def pool_name(field: str, name: str) -> Iterator[Problem]:
    """The name of a pool: domains with slashes between them."""
    if not name:
        yield problem.required(field)
        return
    if len(name.encode()) > _POOL:
        yield problem.too_long(field, _POOL)
    for part in name.split("/"):
        yield from problem.unfit(field, part, names.subdomain(part))


def _where(spec: Object) -> Iterator[Problem]:
    """The nodes that can use the devices are said in one way."""
    yield from _said("spec", spec, _NODES, "must be either unset or set to a non-empty string")
    given = _given(spec, _NODES)
    if not given:
        yield problem.required("spec", _ONE_OF_NODES)
    elif len(given) > 1:
        detail = f"{_ONE_OF_NODES}, but multiple fields are set"
        yield problem.invalid("spec", _listed(given), detail)
    selector = spec.get("nodeSelector")
    if selector is not None and len(terms := selector.get("nodeSelectorTerms") or []) != 1:
        detail = "must have exactly one node selector term"
        yield problem.invalid("spec.nodeSelector.nodeSelectorTerms", terms, detail)


def _device_node(path: str, device: Object, *, apart: bool) -> Iterator[Problem]:
    if not apart:
        if any(device.get(field) is not None for field in _OF_DEVICE):
            yield problem.invalid(path, None, _NOT_APART)
        return
    yield from _said(path, device, _OF_DEVICE, "must not be empty")
    given = _given(device, _OF_DEVICE)
    if not given:
        yield problem.required(path, _ONE_OF_DEVICE)
    elif len(given) > 1:
        yield problem.invalid(path, _listed(given), _ONE_OF_DEVICE)


def _given(obj: Object, fields: tuple[str, ...]) -> list[str]:
    return [field for field in fields if obj.get(field) not in (None, "", False)]


def _listed(fields: list[str]) -> str:
    return "{" + ", ".join(f"`{field}`" for field in fields) + "}"


def _said(path: str, obj: Object, fields: tuple[str, ...], empty_name: str) -> Iterator[Problem]:
    for field in fields:
        value = obj.get(field)
        where = f"{path}.{field}"
        if field == "nodeName" and value == "":
            yield problem.invalid(where, value, empty_name)
        elif field == "nodeName" and value is not None:
            yield from problem.unfit(where, value, names.subdomain(value))
        elif field == "nodeSelector" and value is not None:
            yield from node_selector(where, value)
        elif value is False:
            yield problem.invalid(where, value, "must be either unset or set to true")


def node_selector(path: str, selector: Object) -> Iterator[Problem]:
    """What is wrong with a NodeSelector."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        detail = "must have at least one node selector term"
        yield problem.required(f"{path}.nodeSelectorTerms", detail)
    for index, term in enumerate(terms):
        where = f"{path}.nodeSelectorTerms[{index}]"
        for number, one in enumerate(term.get("matchExpressions") or ()):
            yield from rules.requirement(f"{where}.matchExpressions[{number}]", one, _COMPARED)
        for number, one in enumerate(term.get("matchFields") or ()):
            yield from _field(f"{where}.matchFields[{number}]", one)


def _field(path: str, one: Object) -> Iterator[Problem]:
    """What is compared with a node's own fields: there is only its name."""
    operator, values = one.get("operator", ""), one.get("values") or []
    if operator not in _IN:
        yield problem.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield problem.required(f"{path}.values", detail)
    key = one.get("key", "")
    if key != "metadata.name":
        yield problem.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from problem.unfit(f"{path}.values[{index}]", value, names.subdomain(value))
