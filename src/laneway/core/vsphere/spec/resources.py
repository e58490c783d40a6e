"""How much of a host's processors and memory a machine is kept, may take, and is preferred for.

`resources` of a spec, as CAPV reads it: processors in hertz, memory in bytes, each rounded up to
the million or the MiB that vCenter counts in. What is zero or left out is left to the template.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubebasics import quantity

_MHZ = 10**6
_MIB = 2**20


class ResourceAllocation(msgspec.Struct, frozen=True):
    """Of processors in MHz, or of memory in MiB; None: as the template has it."""

    reservation: int | None = None
    limit: int | None = None
    shares: int | None = None


def resource_allocations(resources: object) -> tuple[ResourceAllocation, ResourceAllocation]:
    """Of processors and of memory. Raises ValueError, with the path of what is wrong."""
    return _resource_allocation(resources, "cpu", _MHZ), _resource_allocation(
        resources, "memory", _MIB
    )


def _resource_allocation(resources: object, name: str, unit: int) -> ResourceAllocation:
    said = {
        part: (_part(resources, part) or {}).get(name) for part in ("requests", "limits", "shares")
    }
    return ResourceAllocation(
        _amount(f"requests.{name}", said["requests"], unit),
        _amount(f"limits.{name}", said["limits"], unit),
        _amount(f"shares.{name}", said["shares"], 1),
    )


def _part(resources: object, part: str) -> Mapping[str, object] | None:
    found = resources.get(part) if isinstance(resources, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _amount(path: str, value: object, unit: int) -> int | None:
    if value is None:
        return None
    try:
        nanos = quantity.value(str(value))
    except ValueError:
        raise ValueError(f"resources.{path}: {value!r}: should be a quantity") from None
    if nanos < 0:
        raise ValueError(f"resources.{path}: {value!r}: should not be negative")
    return -(-nanos // (unit * quantity.NANO)) or None
