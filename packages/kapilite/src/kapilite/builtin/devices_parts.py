"""Parts of a ResourceClaim that its spec and its status have alike, as Kubernetes judges them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import rules
from kapilite.builtin.slices_devices import driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_REQUESTS = 32
_PARAMETERS = 10 * 1024
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_NO_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


class Requests:
    """The requests of a claim, by which other parts of it name them: `gpu`, or `gpu/small`."""

    def __init__(self, spec: Object) -> None:
        self._names: set[str] = set()
        for one in (spec.get("devices") or {}).get("requests") or ():
            name = one.get("name", "")
            self._names.add(name)
            for alternative in one.get("firstAvailable") or ():
                self._names.add(f"{name}/{alternative.get('name', '')}")

    def reference(self, field: str, name: str) -> Iterator[Problem]:
        """What keeps a text from naming one of them."""
        parts = name.split("/")
        if len(parts) <= 2:
            for part in parts:
                yield from rules.dns_label(field, part)
        if name not in self._names:
            yield problem.invalid(field, name, _NO_REQUEST)

    def chosen(self, field: str, found: list[str]) -> Iterator[Problem]:
        """What is wrong with a list of them."""
        if len(found) > _REQUESTS:
            yield problem.too_many(field, len(found), _REQUESTS)
            return
        for index, name in enumerate(found):
            yield from self.reference(f"{field}[{index}]", name)
            if name in found[:index]:
                yield problem.duplicate(f"{field}[{index}]", name)


def tolerations(field: str, found: list[Object] | None) -> Iterator[Problem]:
    """Which taints of devices a claim puts up with."""
    for index, one in enumerate(found or ()):
        path = f"{field}[{index}]"
        key, value, operator = (one.get(part, "") for part in ("key", "value", "operator"))
        if key:
            yield from problem.unfit(f"{path}.key", key, names.qualified_name(key))
        if not operator:
            yield problem.required(f"{path}.operator")
        elif operator not in _OPERATORS:
            yield problem.not_supported(f"{path}.operator", operator, _OPERATORS)
        elif operator == "Exists" and value:
            detail = "must be empty for operator `Exists`"
            yield problem.invalid(f"{path}.value", value, detail)
        elif operator == "Equal":
            yield from problem.unfit(f"{path}.value", value, names.label_value(value))
        effect = one.get("effect", "")
        if effect and effect not in _EFFECTS:
            yield problem.not_supported(f"{path}.effect", effect, _EFFECTS)


def configuration(path: str, one: Object) -> Iterator[Problem]:
    """What a driver is told of devices: any JSON object of some size."""
    opaque = one.get("opaque")
    if opaque is None:
        yield problem.required(f"{path}.opaque")
        return
    yield from driver(f"{path}.opaque.driver", opaque.get("driver", ""))
    field, parameters = f"{path}.opaque.parameters", opaque.get("parameters")
    if parameters is None:
        yield problem.required(field)
    elif len(json.dumps(parameters, separators=(",", ":"))) > _PARAMETERS:
        yield problem.too_long(field, _PARAMETERS)
    elif not isinstance(parameters, dict):
        yield problem.invalid(field, "<value omitted>", "must be a valid JSON object")
