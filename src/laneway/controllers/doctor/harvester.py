"""Harvester's PCI devices controller in a cluster: what of it is there, and whether it runs.

Its chart makes the DaemonSet; the controller itself makes its webhook configurations whenever it
starts; an Addon object has Harvester install the chart. A takeover parks the DaemonSet by a node
selector that no node meets.
"""

from __future__ import annotations

from laneway.controllers.doctor.objects import (
    ADDONS,
    DAEMON_SETS,
    MUTATING,
    VALIDATING,
    Asking,
    Named,
    WorkloadObject,
)
from laneway.core.doctor.cluster_facts import Addon, Harvester, Workload
from laneway.kube.client import Client
from laneway.kube.resource import Resource

NAMESPACE = "harvester-system"
DAEMON_SET = "harvester-pcidevices-controller"
HOOKS = ((MUTATING, "pcidevices-mutator"), (VALIDATING, "pcidevices-validator"))
ADDON = "pcidevices-controller"
PARKED = "devices.harvesterhci.io/laneway-takeover"
"""Key of the node selector that no node meets."""
RECORD = "laneway-takeover"
"""The ConfigMap in which a takeover keeps what it changes."""
RECORDS = Resource("", "v1", "configmaps", True, Named, "ConfigMap")


async def find(client: Client) -> tuple[Harvester, list[str]]:
    """What of it is there, and what could not be seen."""
    asking = Asking(client)
    daemon_set = await asking.one(DAEMON_SETS, DAEMON_SET, NAMESPACE)
    addon = await asking.one(ADDONS, ADDON, NAMESPACE)
    hooks = [
        f"{resource.kind}/{name}"
        for resource, name in HOOKS
        if await asking.one(resource, name) is not None
    ]
    saved = await asking.one(RECORDS, RECORD, NAMESPACE) is not None
    found = Harvester(
        seen=asking.saw(DAEMON_SETS, MUTATING, VALIDATING, RECORDS),
        daemon_set=None if daemon_set is None else daemon_workload(daemon_set),
        parked=daemon_set is not None and is_parked(daemon_set),
        hooks=tuple(hooks),
        addon=None
        if addon is None
        else Addon(
            enabled=addon.spec.get("enabled") is True, status=str(addon.status.get("status", ""))
        ),
        saved=saved,
    )
    return found, asking.unknown


def is_parked(daemon_set: WorkloadObject) -> bool:
    """Whether a takeover keeps it from running."""
    return PARKED in (daemon_set.spec.template.spec.node_selector or {})


def is_gone(daemon_set: WorkloadObject) -> bool:
    """Whether the cluster knows that it is parked, and none of its pods is placed any more."""
    status = daemon_set.status
    return (
        is_parked(daemon_set)
        and status.observed_generation >= daemon_set.metadata.generation
        and not (status.current_number_scheduled or status.number_misscheduled)
    )


def daemon_workload(daemon_set: WorkloadObject) -> Workload:
    """A DaemonSet as facts."""
    status = daemon_set.status
    return Workload(
        kind="DaemonSet",
        namespace=daemon_set.metadata.namespace,
        name=daemon_set.metadata.name,
        wanted=status.desired_number_scheduled,
        ready=status.number_ready,
        present=status.current_number_scheduled + status.number_misscheduled,
        images=images(daemon_set),
    )


def images(workload: WorkloadObject) -> tuple[str, ...]:
    """Of its containers."""
    return tuple(one.image for one in workload.spec.template.spec.containers)
