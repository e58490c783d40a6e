"""What is not as it should be: an object or a node, how bad it is, and why.

An object has one trouble at most, the worst that can be said about it. The sentences are those that
agents and the doctor write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from laneway.api import (
    MIG_OUT_OF_SYNC,
    Condition,
    CoreNode,
    HostPolicy,
    HostPreparation,
    MigConfiguration,
    ObjectMeta,
    PCIDevice,
    SRIOVGPUDevice,
    Status,
    USBDevice,
    VGPUDevice,
    find_condition,
)
from laneway.controllers.ledger import nodes
from laneway.core.rollout.node import Stage
from laneway.views import answers
from laneway.views.gpus import staleness
from laneway.views.preparation import prepared

DELETION, NOT_ANSWERED = "Deletion", "NotAnswered"
NO_AGENT, NODE_CLOSED, NODE_GONE = "NoAgent", "NodeClosed", "NodeNotFound"
UNREADABLE = "Unreadable"
_QUARANTINED, _PAUSED = "DeviceQuarantined", "Paused"


class Weight(IntEnum):
    """How bad it is, the worst first."""

    FAILED = 0
    """Refused or failed; nothing changes by itself."""
    DEGRADED = 1
    """It works, but not as it should."""
    WORKING = 2
    """An agent is at work, or has not answered yet."""
    NOTED = 3
    """An administrator decided it, and it explains why something else does not work."""


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with one object."""

    weight: Weight
    reason: str
    message: str = ""


class Device(Protocol):
    """Any object of ours, as far as it is judged here."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> Status: ...


def of_device(obj: Device) -> Trouble | None:
    """What is wrong with an object of ours, by its conditions; None where nothing is."""
    meta = obj.metadata
    if isinstance(obj, PCIDevice | USBDevice):
        return _of_observed(obj.status.conditions)
    if isinstance(obj, HostPolicy):
        return _of_policy(obj)
    if isinstance(obj, HostPreparation):
        node = prepared(obj)
        failed = node.stage == Stage.FAILED
        return Trouble(Weight.FAILED, node.stage, node.message) if failed else None
    if isinstance(obj, SRIOVGPUDevice):
        answer = answers.of_gpu(obj, meta.generation)
    else:
        answer = answers.answer_of(obj.status, meta.generation)
    if answer.kind == "refused":
        return Trouble(Weight.FAILED, answer.reason, answer.message)
    if isinstance(obj, MigConfiguration) and obj.status.status == MIG_OUT_OF_SYNC:
        return Trouble(Weight.DEGRADED, MIG_OUT_OF_SYNC, obj.status.message)
    for one in () if _has_nothing(obj) else obj.status.conditions:
        if one.type != "Ready" and one.status == "False" and one.message:
            return Trouble(Weight.DEGRADED, one.reason or one.type, one.message)
    if meta.deletion_timestamp:
        since = f"It is being deleted since {meta.deletion_timestamp}."
        return Trouble(Weight.WORKING, DELETION, since)
    if answer.kind == "done":
        return None
    return Trouble(
        Weight.WORKING,
        answer.reason or NOT_ANSWERED,
        answer.message or "No agent has answered yet.",
    )


def _has_nothing(obj: Device) -> bool:
    """Whether it is a function without a vGPU that is to have none: there is nothing to offer."""
    return isinstance(obj, VGPUDevice) and not (obj.spec.enabled or obj.status.vgpu_status)


def _of_policy(policy: HostPolicy) -> Trouble | None:
    """What stops a policy; nothing is wrong with a roll-out that goes on or is paused."""
    answer = answers.answer_of(policy.status, policy.metadata.generation)
    if answer.kind != "refused" or answer.reason == _PAUSED:
        return None
    return Trouble(Weight.FAILED, answer.reason, answer.message)


def _of_observed(conditions: Sequence[Condition]) -> Trouble | None:
    """Of a device that is only observed: that it cannot be claimed is nothing wrong."""
    for one in conditions:
        if one.reason == _QUARANTINED:
            return Trouble(Weight.FAILED, one.reason, one.message)
    ready = find_condition(conditions, "Ready")
    if ready is None or ready.status == "True":
        return None
    return Trouble(Weight.FAILED, ready.reason, ready.message)


def of_node(node: CoreNode | None, *, agent: bool, devices: bool) -> Iterator[Trouble]:
    """What is wrong with a node, worst first.

    `agent`: whether one answers for it. `devices`: whether there are objects or labels of GPUs.
    """
    if node is None:
        yield Trouble(Weight.FAILED, NODE_GONE, "The cluster has no such node any more.")
        return
    closed = nodes.of_node(node).closed
    noted = Trouble(Weight.NOTED, NODE_CLOSED, f"{closed[:1].upper()}{closed[1:]}.")
    if stale := staleness(node):
        yield Trouble(Weight.FAILED, NODE_CLOSED, f"{stale[:1].upper()}{stale[1:]}")
    elif closed and not node.spec.unschedulable:
        yield msgspec.structs.replace(noted, weight=Weight.FAILED)
    if devices and not agent:
        yield Trouble(Weight.FAILED, NO_AGENT, "The node has GPUs, and no agent manages them.")
    if closed and not stale and node.spec.unschedulable:
        yield noted


def unreadable(why: str) -> Trouble:
    """What is wrong with an object that is stored and is not what its kind says."""
    return Trouble(Weight.FAILED, UNREADABLE, f"It cannot be read: {why}. Correct or delete it.")
