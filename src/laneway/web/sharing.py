"""Decoding of devices in which what many have in common is kept once.

All functions of a card have the same labels, the same profiles and, made at the same time, the same
conditions. Of a hundred thousand objects these are most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from laneway.api import Condition, PCIDevice, VGPUDevice, VGPUDeviceStatus, decode

D = TypeVar("D", VGPUDevice, PCIDevice)

_MOST = 50_000
"""So many different ones are remembered."""


class Sharing:
    """Decodes the devices of one kind."""

    def __init__(self) -> None:
        self._mappings: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._conditions: dict[tuple[Condition, ...], Sequence[Condition]] = {}

    def __call__(self, kind: type[D], raw: bytes | msgspec.Raw) -> D:
        obj = decode(kind, raw)
        status = replace(obj.status, conditions=self._shared(obj.status.conditions))
        if isinstance(status, VGPUDeviceStatus):
            status = replace(status, available_types=self._same(status.available_types))
        metadata = replace(obj.metadata, labels=self._same(obj.metadata.labels))
        return replace(obj, metadata=metadata, status=status)

    def _same(self, mapping: Mapping[str, str]) -> Mapping[str, str]:
        if len(self._mappings) > _MOST:
            self._mappings.clear()
        return self._mappings.setdefault(tuple(mapping.items()), mapping)

    def _shared(self, conditions: Sequence[Condition]) -> Sequence[Condition]:
        if len(self._conditions) > _MOST:
            self._conditions.clear()
        found = tuple(conditions)
        return self._conditions.setdefault(found, found)
