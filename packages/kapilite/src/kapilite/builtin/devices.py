"""What Kubernetes refuses of those who request devices by `resource.k8s.io/v1`: classes, claims."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import devices_status, rules
from kapilite.builtin.devices_parts import Requests, configuration, tolerations
from kapilite.builtin.slices_devices import attribute_name
from kapilite.cel.checker import check
from kapilite.cel.program import program
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, DYN, STRING, map_of, object_of, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_REQUESTS, _ALTERNATIVES, _SELECTORS, _CONSTRAINTS, _CONFIGURATIONS = 32, 8, 32, 32, 32
_EXPRESSION = 10 * 1024
_MODES = ("All", "ExactCount")
_DEVICE = object_of(
    {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, parse_type("quantity"))),
        "allowMultipleAllocations": BOOL,
    }
)


def device_class(obj: Object, _: Object | None) -> Iterator[Problem]:
    """A choice of devices, and how they are set up."""
    spec = obj.get("spec") or {}
    yield from _selectors("spec.selectors", spec.get("selectors"))
    yield from _configurations("spec.config", spec.get("config"), None)
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        detail = "must be a valid extended resource name"
        yield problem.invalid("spec.extendedResourceName", name, detail)


def resource_claim(obj: Object, old: Object | None) -> Iterator[Problem]:
    """Devices that a claim requests, and has got. Both stay."""
    spec = obj.get("spec") or {}
    if old is None:
        yield from _claim("spec", spec)
        return
    yield from rules.immutable("spec", spec, old.get("spec") or {})
    if (obj.get("status") or {}) != (old.get("status") or {}):
        yield from devices_status.changed(obj, old, Requests(spec))


def resource_claim_template(obj: Object, old: Object | None) -> Iterator[Problem]:
    """The claims that pods get of their own."""
    spec = obj.get("spec") or {}
    if old is not None:
        yield from rules.immutable("spec", spec, old.get("spec") or {})
    else:
        yield from _claim("spec.spec", spec.get("spec") or {})


def _claim(path: str, spec: Object) -> Iterator[Problem]:
    requests = (spec.get("devices") or {}).get("requests")
    yield from rules.items(f"{path}.devices.requests", requests, _REQUESTS, "name", _request)
    known, where = Requests(spec), f"{path}.devices.constraints"
    constraints = (spec.get("devices") or {}).get("constraints") or []
    if len(constraints) > _CONSTRAINTS:
        yield problem.too_many(where, len(constraints), _CONSTRAINTS)
    for index, one in enumerate(constraints[:_CONSTRAINTS]):
        yield from _constraint(f"{where}[{index}]", one, known)
    configurations = (spec.get("devices") or {}).get("config")
    yield from _configurations(f"{path}.devices.config", configurations, known)


def _constraint(path: str, one: Object, known: Requests) -> Iterator[Problem]:
    """What the devices of some requests have in common, or do not."""
    yield from known.chosen(f"{path}.requests", one.get("requests") or [])
    for field in ("matchAttribute", "distinctAttribute"):
        if (name := one.get(field)) is not None:
            yield from attribute_name(f"{path}.{field}", name)
            if "/" not in name:
                detail = "a fully qualified name must be a domain and a name separated by a slash"
                yield problem.invalid(f"{path}.{field}", name, detail)
            return
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple '
    yield problem.required(path, detail + "fields are set")


def _configurations(
    field: str, found: list[Object] | None, known: Requests | None
) -> Iterator[Problem]:
    found = found or []
    if len(found) > _CONFIGURATIONS:
        yield problem.too_many(field, len(found), _CONFIGURATIONS)
    for index, one in enumerate(found[:_CONFIGURATIONS]):
        if known is not None:
            yield from known.chosen(f"{field}[{index}].requests", one.get("requests") or [])
        yield from configuration(f"{field}[{index}]", one)


def _is_extended(name: str) -> bool:
    """Whether it can be the name of a resource that is no built-in one, also in a quota."""
    usual = "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
    return usual and not names.qualified_name(f"requests.{name}")


def _request(path: str, request: Object) -> Iterator[Problem]:
    yield from rules.required_label(f"{path}.name", request.get("name", ""))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is None and not alternatives:
        yield problem.required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and alternatives:
        detail = (
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        )
        yield problem.invalid(path, None, detail)
    elif exactly is not None:
        yield from _devices(f"{path}.exactly", exactly)
    else:
        field = f"{path}.firstAvailable"
        yield from rules.items(field, alternatives, _ALTERNATIVES, "name", _alternative)


def _alternative(path: str, request: Object) -> Iterator[Problem]:
    yield from rules.required_label(f"{path}.name", request.get("name", ""))
    yield from _devices(path, request)


def _devices(path: str, request: Object) -> Iterator[Problem]:
    name = request.get("deviceClassName", "")
    if name:
        yield from problem.unfit(f"{path}.deviceClassName", name, names.subdomain(name))
    else:
        yield problem.required(f"{path}.deviceClassName")
    yield from _selectors(f"{path}.selectors", request.get("selectors"))
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield problem.not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield problem.invalid(f"{path}.count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield problem.invalid(f"{path}.count", count, "must be greater than zero")
    yield from tolerations(f"{path}.tolerations", request.get("tolerations"))


def _selectors(field: str, selectors: list[Object] | None) -> Iterator[Problem]:
    selectors = selectors or []
    if len(selectors) > _SELECTORS:
        yield problem.too_many(field, len(selectors), _SELECTORS)
    for index, selector in enumerate(selectors[:_SELECTORS]):
        path = f"{field}[{index}].cel"
        expression = (selector.get("cel") or {}).get("expression", "")
        if selector.get("cel") is None:
            yield problem.required(path)
        elif not expression:
            yield problem.required(f"{path}.expression")
        elif len(expression.encode()) > _EXPRESSION:
            yield problem.too_long(f"{path}.expression", _EXPRESSION)
        elif why := _mistake(expression):
            yield problem.invalid(f"{path}.expression", expression, why)


@functools.lru_cache(maxsize=256)
def _mistake(expression: str) -> str:
    """What keeps an expression from choosing devices."""
    try:
        found = check(expression, program(expression).tree, {"device": _DEVICE})
    except CelSyntaxError as error:
        return f"compilation failed: {error}"
    return (
        ""
        if found in (BOOL, DYN)
        else "must evaluate to bool or the unknown type, not " + str(found)
    )
