"""What a family of devices tells the publisher about its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from laneway.api import Condition, ObjectMeta, Status, set_condition
from laneway.core import names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.refusals import NameMismatch

READ_FAILED = "ReadFailed"
"""Event, and reason of `Ready`: something of a device cannot be read, so it is left alone."""


class DeviceObject(Protocol):
    """Any object of the device group."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> Status: ...


T = TypeVar("T", bound=DeviceObject)


@dataclass(frozen=True)
class Family(Generic[T]):
    """One kind of object and the pure functions that make it."""

    type: type[T]
    wanted: Callable[[Inventory, str], Mapping[str, T]]
    """`(inventory, node)` to the objects by name. Labels and status are kept in step; annotations
    and spec are the start values of an object that does not exist yet, for they belong to users
    afterwards."""
    status: Callable[[T, T], Status]
    """`(stored, wanted)` to the status that should be stored; conditions carry no times yet."""
    keep: Callable[[T, Inventory], bool] = lambda _stored, _inventory: False
    """Whether an object stays although its device was not found."""


def node_of(obj: DeviceObject) -> str:
    """The node that an object says it belongs to; empty when it does not say."""
    for part in (getattr(obj, "spec", None), obj.status):
        if node := getattr(part, "node_name", ""):
            return str(node)
    return ""


def named_otherwise(name: str, address: str, of_node: str, node: str) -> NameMismatch | None:
    """What is wrong where a name does not stand for this address on this node."""
    try:
        meant = names.pci_object_name(node, PciAddress.parse(address))
    except ValueError:
        meant = ""
    if meant == name and of_node in ("", node):
        return None
    return NameMismatch(name, address, of_node)


def read_failed(inventory: Inventory, address: PciAddress) -> str:
    """Why a device could not be read completely; empty when it could."""
    return "; ".join(e.message for e in inventory.errors if e.device == str(address))


def unreadable(inventory: Inventory, devices: Iterable[str]) -> bool:
    """Whether the scan failed on one of these devices, so that absence proves nothing.

    An error that names a path instead of a device speaks of a whole directory.
    """
    failed = {error.device for error in inventory.errors}
    return any(one.startswith("/") for one in failed) or any(one in failed for one in devices)


def ready(reason: str, message: str, *, status: bool = True) -> Condition:
    """The Ready condition."""
    return Condition(
        type="Ready", status="True" if status else "False", reason=reason, message=message
    )


def merge_conditions(
    stored: Sequence[Condition], new: Sequence[Condition], generation: int, now: str
) -> list[Condition]:
    """Stored conditions with the new ones in their places; times change only with a status."""
    merged = list(stored)
    for condition in new:
        merged = set_condition(merged, _at(condition, generation), now)
    return merged


def _at(condition: Condition, generation: int) -> Condition:
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        observed_generation=generation,
    )
