"""Devices as the manager keeps them: the parts that it reads, and what is equal only once.

A cluster of a thousand nodes has more than a hundred thousand vGPUs, and as many claims. What is
left out reads as if it had never been said. When a condition last changed is left out as well, but
of a claim without an answer: the answer of the manager keeps what was said before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.api import (
    ObjectMeta,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceClaimStatus,
    decode,
    find_condition,
)
from laneway.kube.sharing import NOTHING, one, timeless

if TYPE_CHECKING:
    from laneway.controllers.cluster.caches import Vgpu


def vgpu(kind: type[Vgpu], raw: bytes | msgspec.Raw) -> Vgpu:
    """A VGPUDevice."""
    whole = decode(kind, raw)
    conditions = timeless(whole.status.conditions)
    status = msgspec.structs.replace(whole.status, conditions=conditions)
    return kind(
        metadata=_metadata(whole.metadata),
        spec=one(whole.spec),
        status=status if status.allocation is not None else one(status),
    )


def claim(kind: type[PCIDeviceClaim], raw: bytes | msgspec.Raw) -> PCIDeviceClaim:
    """A PCIDeviceClaim."""
    whole = decode(kind, raw)
    said = whole.status
    answered = find_condition(said.conditions, "Ready") is not None
    status = PCIDeviceClaimStatus(
        observed_generation=said.observed_generation,
        resource_name=said.resource_name,
        vendor_id=said.vendor_id,
        device_id=said.device_id,
        allocation=said.allocation,
        conditions=timeless(said.conditions) if answered else tuple(said.conditions),
    )
    return kind(
        metadata=_metadata(whole.metadata),
        spec=one(PCIDeviceClaimSpec(node_name=whole.spec.node_name)),
        status=status if said.allocation is not None else one(status),
    )


def _metadata(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        deletion_timestamp=meta.deletion_timestamp,
        labels=NOTHING,
        annotations=NOTHING,
        finalizers=one(tuple(meta.finalizers)),
        owner_references=(),
    )
