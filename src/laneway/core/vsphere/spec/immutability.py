"""What may not change about a VSphereMachine, VSphereMachineTemplate or VSphereVM.

Specs are compared as they mean, not as they are written: what is not set is the same as what is
empty, a default the same as nothing, and the proposal's spelling of devices the same as the
released one. So a client that writes back what it read, or applies the same file twice, changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.core.phrases import few
from laneway.core.raw import Json, JsonObject
from laneway.core.vsphere.spec import parsing
from laneway.core.vsphere.spec.parsing import Problem
from laneway.core.vsphere.spec.validation import MACHINE, TEMPLATE, VM

FROZEN_TEMPLATE = (
    "VSphereMachineTemplate spec.template.spec field is immutable. Please create a new resource "
    "instead."
)
FROZEN = "cannot be modified"
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    MACHINE: {"datacenter": "*"},
    TEMPLATE: {},
    VM: {"os": "Linux"},
}
"""By kind, as CAPV sets them."""

_POWER_OFF = frozenset({"powerOffMode", "guestSoftPowerOffTimeoutSeconds"})
_FREE: Mapping[str, frozenset[str]] = {
    MACHINE: _POWER_OFF | {"providerID"},
    TEMPLATE: frozenset(),
    VM: _POWER_OFF | {"bootstrapRef", "thumbprint"},
}
_ONCE: Mapping[str, frozenset[str]] = {VM: frozenset({"os", "biosUUID"})}
"""What may be set while it is empty."""


def changed(kind: str, old: Json, new: Json, base: str) -> tuple[Problem, ...]:
    """What speaks against an update."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return ()
    before, after = _meant(kind, old), _meant(kind, new)
    free = _FREE[kind] | {key for key in _ONCE.get(kind, ()) if not old.get(key)}
    keys = {*before, *after} - free
    names = sorted(key for key in keys if before.get(key) != after.get(key))
    if not names:
        return ()
    if kind == TEMPLATE:
        return (Problem(base, f"{few(names)} changed", FROZEN_TEMPLATE),)
    return (Problem(base, None, f"{FROZEN}; {few(names)} changed", "Forbidden"),)


def _meant(kind: str, spec: JsonObject) -> JsonObject:
    """A spec in the one form of all that mean the same."""
    items = parsing.released(spec)
    found: dict[str, Json] = {**spec} if items is None else {**spec, "pciDevices": items}
    if items is not None:
        for alias in parsing.ALIASES:
            found.pop(alias, None)
    for key, value in DEFAULTS[kind].items():
        found[key] = found.get(key) or value
    network = found.get("network")
    if kind != TEMPLATE and isinstance(network, Mapping):
        found["network"] = {key: value for key, value in network.items() if key != "devices"}
    return {
        key: clean for key, value in found.items() if (clean := _without_empty(value)) is not None
    }


def _without_empty(value: Json) -> Json:
    """A value without its empty parts; None where nothing is left."""
    match value:
        case Mapping():
            kept = {
                key: clean
                for key, one in value.items()
                if (clean := _without_empty(one)) is not None
            }
            return kept or None
        case list() | tuple():
            return [_without_empty(one) for one in value] or None
        case _:
            return value or None
