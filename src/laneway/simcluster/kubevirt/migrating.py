"""What a migration may do next, and what it leaves on the instance; decisions only.

A migration that has been handed over is in the instance's `migrationState`: from then on that says
which pod is the instance's, before and after. Until then the migration has nothing but a pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.api import Condition, find_condition
from laneway.core.permitted import RESOURCE
from laneway.core.raw import JsonObject
from laneway.kube.kubevirt import Devices, KubeVirt, VirtualMachineInstanceMigration
from laneway.kube.pods import Pod, is_ready
from laneway.kube.resource import Key
from laneway.simcluster.kubevirt.manifest import current_pod
from laneway.simcluster.kubevirt.objects import FINAL, LABEL_NODE, Instance, desired
from laneway.simcluster.objects import ENDED

LABEL_TARGET = "kubevirt.io/migrationTargetNodeName"
"""On an instance: where it is going."""
ANNOTATION_TIMEOUT = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
"""On a migration: how long its pod may wait for a node."""
GATE_VGPU = "LibvirtHooksServerAndClient"
"""The gate without which no VM with a vGPU is migrated."""
_TIMEOUT = 300

Migration = VirtualMachineInstanceMigration


class Phase:
    """Of a migration, in their order."""

    UNSET = ""
    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    PREPARING = "PreparingTarget"
    READY = "TargetReady"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


_BEFORE_POD = frozenset({Phase.UNSET, Phase.PENDING})
_BEFORE_HANDOVER = _BEFORE_POD | {Phase.SCHEDULING, Phase.SCHEDULED}


def migratable(instance: Instance, installation: KubeVirt | None = None) -> Condition:
    """Whether an instance can be migrated while it runs.

    With devices that is one with a single vGPU on a mediated device, from KubeVirt 1.9 on and
    behind a gate (kubevirt#16675); with others none.
    """
    devices = desired(instance).domain.devices
    if devices.all and not _is_mediated(devices, installation):
        return Condition(
            type="LiveMigratable",
            status="False",
            reason="HostDeviceNotLiveMigratable",
            message="VMI uses a PCI host devices",
        )
    return Condition(type="LiveMigratable", status="True")


def _is_mediated(devices: Devices, installation: KubeVirt | None) -> bool:
    if installation is None or devices.host_devices or len(devices.gpus) != 1:
        return False
    configuration = installation.spec.configuration
    permitted = configuration.permitted_host_devices
    gates = configuration.developer_configuration.feature_gates
    mediated = () if permitted is None else permitted.mediated_devices
    known = {entry.get(RESOURCE) for entry in mediated}
    return GATE_VGPU in gates and devices.gpus[0].device_name in known


def subject(migration: Migration) -> Key:
    """The instance that a migration is about."""
    return Key(migration.metadata.namespace, migration.spec.vmi_name)


def is_final(migration: Migration) -> bool:
    """Whether it is over, well or not."""
    return migration.status.phase in FINAL


def is_done(migration: Migration, instance: Instance) -> bool:
    """Whether the instance is where the migration was to bring it."""
    state = instance.status.migration_state
    mine = state is not None and state.migration_uid == migration.metadata.uid
    return mine and state is not None and state.completed and not state.failed


def obstacle(
    migration: Migration, instance: Instance, pod: Pod | None, others: Iterable[Migration]
) -> str:
    """Why a migration has failed, in KubeVirt's words; empty while it can go on."""
    if is_done(migration, instance):
        return ""
    phase = migration.status.phase
    state = instance.status.migration_state
    owner = "" if state is None else state.migration_uid
    mine = owner == migration.metadata.uid
    if instance.metadata.deletion_timestamp or instance.status.phase in FINAL:
        return "Migration failed vmi shutdown during migration."
    if migration.metadata.deletion_timestamp and not mine:
        return "Migration failed due to being canceled"
    if state is not None and mine and state.failed:
        return "source node reported migration failed"
    if pod is not None and (pod.status.phase in ENDED or pod.metadata.deletion_timestamp):
        return "Migration failed because target pod shutdown during migration"
    if pod is None and phase not in _BEFORE_POD:
        return "Migration target pod was removed during active migration."
    if phase not in _BEFORE_HANDOVER and not mine:
        if not owner:
            return "VMI's migration state was cleared during the active migration."
        return (
            "VMI's migration state was taken over by another migration job during active migration."
        )
    if pod is None and (refused := _refused(instance)):
        return refused
    if not mine and any(_goes_first(one, migration, owner) for one in others):
        return "VMI is not eligible for migration because another migration job is in progress."
    return ""


def _refused(instance: Instance) -> str:
    """What KubeVirt's webhook says of an instance whose condition is that it cannot be migrated."""
    said = find_condition(instance.status.conditions, "LiveMigratable")
    if said is None or said.status == "True":
        return ""
    return f"Cannot migrate VMI, Reason: {said.reason}, Message: {said.message}"


def _goes_first(other: Migration, migration: Migration, owner: str) -> bool:
    """Whether another migration of the same instance is under way."""
    if is_final(other) or other.metadata.uid == migration.metadata.uid:
        return False
    if other.metadata.uid == owner:
        return True
    if migration.status.phase:
        return False
    return bool(other.status.phase) or _age(other) < _age(migration)


def _age(migration: Migration) -> tuple[str, str]:
    return migration.metadata.creation_timestamp, migration.metadata.name


def unschedulable(pod: Pod) -> bool:
    """Whether a pod waits for a node that has room for it."""
    said = find_condition(pod.status.conditions, "PodScheduled")
    waits = said is not None and (said.status, said.reason) == ("False", "Unschedulable")
    return waits and not pod.spec.node_name


def patience(migration: Migration) -> int:
    """For how many seconds its pod may wait for a node."""
    text = migration.metadata.annotations.get(ANNOTATION_TIMEOUT, "")
    return int(text) if text.isascii() and text.isdigit() else _TIMEOUT


def next_phase(migration: Migration, instance: Instance, pod: Pod | None) -> str:
    """The phase that follows, once it may."""
    phase = migration.status.phase
    if phase == Phase.UNSET:
        return Phase.PENDING
    if phase == Phase.PENDING:
        return Phase.SCHEDULING if pod is not None else phase
    if phase == Phase.SCHEDULING:
        return Phase.SCHEDULED if pod is not None and is_ready(pod) else phase
    state = instance.status.migration_state
    if state is None:
        return phase
    if phase == Phase.SCHEDULED:
        return Phase.PREPARING
    if phase == Phase.PREPARING:
        return Phase.READY
    if phase == Phase.READY:
        return Phase.RUNNING if state.start_timestamp else phase
    return Phase.SUCCEEDED if state.completed else phase


# ------------------------------------------------------------------------- what the instance says


def handed_over(migration: Migration, instance: Instance, pod: Pod) -> JsonObject:
    """The instance belongs to this migration now; what was said of the last one is cleared."""
    node = pod.spec.node_name
    state: JsonObject = {
        "migrationUid": migration.metadata.uid,
        "sourceNode": instance.status.node_name,
        "sourcePod": current_pod(instance),
        "targetNode": node,
        "targetPod": pod.metadata.name,
        "targetNodeDomainReadyTimestamp": None,
        "startTimestamp": None,
        "endTimestamp": None,
        "completed": None,
        "failed": None,
        "failureReason": None,
    }
    status: JsonObject = {"migrationState": state, "activePods": {pod.metadata.uid: node}}
    return {"metadata": {"labels": {LABEL_TARGET: node}}, "status": status}


def started(now: str) -> JsonObject:
    """The memory is on its way."""
    return {"status": {"migrationState": {"startTimestamp": now}}}


def arrived(pod: Pod, source: str, now: str) -> JsonObject:
    """The instance is in its new pod; `source` is the uid of the pod that it has left."""
    node, uid = pod.spec.node_name, pod.metadata.uid
    gone = {source: None} if source else {}
    state: JsonObject = {
        "targetNodeDomainReadyTimestamp": now,
        "endTimestamp": now,
        "completed": True,
    }
    status: JsonObject = {
        "nodeName": node,
        "activePods": {uid: node, **gone},
        "evacuationNodeName": None,
        "migrationState": state,
    }
    return {"metadata": {"labels": {LABEL_NODE: node, LABEL_TARGET: None}}, "status": status}


def stayed(pod: Pod | None, why: str, now: str) -> JsonObject:
    """The instance is where it was."""
    state: JsonObject = {
        "endTimestamp": now,
        "completed": True,
        "failed": True,
        "failureReason": why,
    }
    gone = {} if pod is None else {"activePods": {pod.metadata.uid: None}}
    return {
        "metadata": {"labels": {LABEL_TARGET: None}},
        "status": {"migrationState": state, **gone},
    }
