"""The record on a VM of the devices that it has, in Harvester's form.

`{"gpus":{RESOURCE:[NAME]},"hostdevices":{RESOURCE:[NAME]}}`, both parts sorted and without doubles,
empty ones left out. Mediated devices stand under `gpus` by the name of their VGPUDevice, all other
devices under `hostdevices` by that of their PCIDevice or USBDevice.

The record of a VM that is stopped is its reservation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Part(StrEnum):
    """The parts of the record."""

    GPUS = "gpus"
    HOST_DEVICES = "hostdevices"


class Held(NamedTuple):
    """One device of a VM."""

    part: Part
    resource: str
    name: str


class _Record(msgspec.Struct, omit_defaults=True):
    gpus: dict[str, list[str]] = {}
    hostdevices: dict[str, list[str]] = {}


def text_of(devices: Iterable[Held]) -> str:
    """The record of these devices; empty for none."""
    parts: dict[str, dict[str, list[str]]] = {}
    for device in sorted(set(devices)):
        parts.setdefault(device.part, {}).setdefault(device.resource, []).append(device.name)
    return msgspec.json.encode(parts).decode() if parts else ""


def devices_of(text: str) -> list[Held]:
    """The devices of a record, sorted. Raises ValueError for one that a hand has spoilt."""
    if not text:
        return []
    try:
        record = msgspec.json.decode(text, type=_Record)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    parts = {Part.GPUS: record.gpus, Part.HOST_DEVICES: record.hostdevices}
    return sorted(
        {
            Held(part, resource, name)
            for part, resources in parts.items()
            for resource, names in resources.items()
            for name in names
        }
    )


class Request(NamedTuple):
    """One device that a VM requests."""

    name: str
    """What the VM calls it: with Harvester's own clients, the name of a device."""
    resource: str


def still_requested(devices: Collection[Held], requests: Sequence[Request]) -> list[Held]:
    """What is left of a reservation when a stopped VM requests this.

    Of each resource as many as it requests, those first that it calls by their names.
    """
    left = Counter(request.resource for request in requests)
    called = {request.name for request in requests}
    kept = []
    for device in sorted(devices, key=lambda one: (one.name not in called, one)):
        if left[device.resource] > 0:
            left[device.resource] -= 1
            kept.append(device)
    return sorted(kept)


_OF_A_NODE = re.compile(r"[0-9a-f]{9,13}|[0-9a-f]{4}-[0-9a-f]{4}-[0-9]{6}")
"""What follows the node in the name of a device: an address, or USB ids with bus and number."""


def on_node(device: Held, node: str) -> bool:
    """Whether a device is one of this node's, as its name tells."""
    rest = device.name.removeprefix(f"{node}-")
    return rest != device.name and _OF_A_NODE.fullmatch(rest) is not None
