"""What Kubernetes refuses of those who request devices by `resource.k8s.io/v1`: classes, claims."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import rules
from kapilite.cel.checker import check
from kapilite.cel.program import program
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, DYN, STRING, map_of, object_of, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_REQUESTS, _ALTERNATIVES, _SELECTORS = 32, 8, 32
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
    if name := spec.get("extendedResourceName"):
        yield from problem.unfit("spec.extendedResourceName", name, names.qualified_name(name))


def resource_claim(obj: Object, old: Object | None) -> Iterator[Problem]:
    """Devices that a claim requests. What is requested stays."""
    spec = obj.get("spec") or {}
    if old is not None:
        yield from rules.immutable("spec", spec, old.get("spec") or {})
    else:
        yield from _claim("spec", spec)


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
    """What keeps an expression from choosing devices; `semver` is not known here."""
    try:
        found = check(expression, program(expression).tree, {"device": _DEVICE})
    except CelSyntaxError as error:
        return f"compilation failed: {error}"
    return (
        ""
        if found in (BOOL, DYN)
        else "must evaluate to bool or the unknown type, not " + str(found)
    )
