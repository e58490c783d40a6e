"""Node (of the device group): the marker of a node that an agent manages."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import (
    Condition,
    DeviceNode,
    DeviceNodeStatus,
    ObjectMeta,
    find_condition,
)
from laneway.controllers.devices.driver import NONE as NO_DRIVER
from laneway.controllers.devices.driver import driver_condition
from laneway.controllers.devices.family import ready
from laneway.core import keys
from laneway.core.driver_toolkit.standing import Standing
from laneway.core.gpu.serving import NOTHING_SERVED, Serving
from laneway.core.inventory import Inventory
from laneway.core.phrases import few

CONTAINER_GPUS = "ContainerGpus"
"""The condition that says whether GPUs for containers get to them."""


def wanted(
    inventory: Inventory,
    node: str,
    uevents_unavailable: str,
    uid: str,
    *,
    served: Serving = NOTHING_SERVED,
    driver: Standing | None = None,
) -> Mapping[str, DeviceNode]:
    """One object, named like the node; `uevents_unavailable` says why events do not arrive.

    `uid` is that of the cluster's node, empty where there is none. `served`: how its GPUs for
    containers get to them. `driver`: what the driver toolkit has done, where it has run.
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
    drivers = [driver_condition(driver)] if driver is not None else []
    node_object = DeviceNode(
        metadata=ObjectMeta(name=node, labels={keys.LABEL_NODE_UID: uid} if uid else {}),
        status=DeviceNodeStatus(conditions=[observed, events, *_containers(served), *drivers]),
    )
    return {node: node_object}


def status(stored: DeviceNode, wanted: DeviceNode) -> DeviceNodeStatus:
    """What is; a condition that is about nothing any more says so."""
    conditions = wanted.status.conditions
    over = [
        one
        for one in _OVER
        if find_condition(stored.status.conditions, one.type) is not None
        and find_condition(conditions, one.type) is None
    ]
    return DeviceNodeStatus(conditions=[*conditions, *over])


_OVER = (
    Condition(
        type=CONTAINER_GPUS,
        status="False",
        reason="NoContainerGpus",
        message="No GPU of the node is for containers.",
    ),
    NO_DRIVER,
)


def _containers(served: Serving) -> list[Condition]:
    """Whether the GPUs that are for containers get to them; nothing of a node without any."""
    if served.problems:
        first = served.problems[0]
        text = " ".join(f"{one.words.rstrip('.')}." for one in served.problems)
        return [Condition(type=CONTAINER_GPUS, status="False", reason=first.reason, message=text)]
    if not served.served:
        return []
    gpus = few(f"{one.address} ({one.vendor.written})" for one in served.served)
    return [
        Condition(
            type=CONTAINER_GPUS,
            status="True",
            reason="ContainersServed",
            message=f"Device plugins of their vendors advertise these GPUs: {gpus}.",
        )
    ]
