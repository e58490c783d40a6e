"""Node (of the device group): the marker of a node that an agent manages."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import Condition, DeviceNode, DeviceNodeStatus, ObjectMeta
from laneway.controllers.devices.family import ready
from laneway.core import keys
from laneway.core.inventory import Inventory


def wanted(
    inventory: Inventory, node: str, uevents_unavailable: str, uid: str
) -> Mapping[str, DeviceNode]:
    """One object, named like the node; `uevents_unavailable` says why events do not arrive.

    `uid` is that of the cluster's node, empty where there is none.
    """
    if inventory.errors:
        first = inventory.errors[0]
        more = f" and {len(inventory.errors) - 1} more" if len(inventory.errors) > 1 else ""
        observed = ready(
            "PartiallyObserved",
            f"Cannot be read: {first.device}: {first.message}{more}.",
            status=False,
        )
    else:
        observed = ready("Observed", "The devices of the node are published.")
    if uevents_unavailable:
        events = Condition(
            type="KernelEvents",
            status="False",
            reason="Unavailable",
            message=f"Kernel events cannot be received: {uevents_unavailable}. "
            "Laneway finds changes by a scan every 30 s instead.",
        )
    else:
        events = Condition(
            type="KernelEvents",
            status="True",
            reason="Received",
            message="Laneway sees changes as the kernel reports them.",
        )
    node_object = DeviceNode(
        metadata=ObjectMeta(name=node, labels={keys.LABEL_NODE_UID: uid} if uid else {}),
        status=DeviceNodeStatus(conditions=[observed, events]),
    )
    return {node: node_object}
