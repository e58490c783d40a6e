"""Whether a machine's GPUs work where they are used: in the node that it became.

Once a machine's devices are in order, its workload cluster is looked into: the node must show as
many GPUs as were requested, and a Job that adds vectors on one of them must succeed. `GPUNodeReady`
of the VSphereMachine tells how that stands, and stays True until the devices are found wanting.

The Job is all that is kept while it runs, and it ends and deletes itself, should we be killed: so
the next leader goes on with it. What fails is tried again, but not more often than set down here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from kubebasics import quantity
from laneway.api import Condition, ConditionStatus, find_condition, set_condition, timestamp
from laneway.controllers.cluster.leading import Leading
from laneway.core.gpu.sample import LABEL_HOST
from laneway.core.vsphere.spec.parsing import read
from laneway.core.vsphere.spec.requests import (
    GroupRequest,
    PassthroughRequest,
    Requested,
    VgpuRequest,
)
from laneway.kube.capv import VSPHERE_MACHINES, MachineSpec, VSphereMachine
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.node_checks.job import JOBS, Node, job, outcome
from laneway.vsphere.node_checks.workload_cluster import UnreadableSecretError, node_of, reach
from laneway.vsphere.status import apply, as_json

CONDITION = "GPUNodeReady"
DEVICES = "PCIDevicesReady"
FIELD_MANAGER = "laneway-vsphere-nodes"
"""Of its own: what the other parts say of a machine is not ours to take away."""
GPU = "nvidia.com/gpu"
NAMESPACE = "default"
_NVIDIA = 0x10DE
_LOOK_SECONDS = 60.0
"""To get all answers of a workload cluster, which may be half made."""


class Pace(NamedTuple):
    """How soon is looked again, in seconds."""

    waiting: float = 15.0
    running: float = 3.0
    forbidden: float = 300.0
    """While we may not read the kubeconfig: only the administrator can change that."""
    failed: float = 1800.0


class Verdict(NamedTuple):
    """What the condition is to say, and when to look again; never, where `again` is None."""

    holds: bool
    reason: str
    message: str
    again: float | None


class NodeChecks(Leading[Key]):
    """Looks into the nodes of machines that have GPUs."""

    workers = 4

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        recorder: EventRecorder,
        *,
        image: str = "",
        pace: Pace | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`image`: adds vectors on a GPU, and ends with 0 when that went well; empty: NVIDIA's."""
        super().__init__()
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._image = image
        self._pace = pace or Pace()
        self._clock = clock
        self.needs = (caches.vsphere_machines,)
        caches.vsphere_machines.subscribe(self._changed)

    def _changed(self, _before: VSphereMachine | None, after: VSphereMachine | None) -> None:
        self.ask([key_of(after)] if after is not None else ())

    def everything(self) -> Iterable[Key]:
        return self._caches.vsphere_machines.store.keys()

    async def reconcile(self, key: Key) -> Retry | None:
        """Find out how one machine's node is."""
        machine = self._caches.vsphere_machines.store.get(key.name, key.namespace)
        if machine is None or machine.metadata.deletion_timestamp is not None:
            return None
        gpus = requested_gpus(machine.spec)
        if not gpus or not machine.status.initialization.provisioned:
            return None
        said = find_condition(machine.status.conditions, CONDITION)
        if not _in_order(machine):
            if said is not None:
                await self._say(machine, _DEVICES_FIRST)
            return None
        if said is not None and said.status == "True":
            return None
        if (left := self._rest(said)) > 0:
            return Retry(left)
        verdict = await self._look(machine, gpus)
        await self._say(machine, verdict)
        return Retry(verdict.again) if verdict.again is not None else None

    def _rest(self, said: Condition | None) -> float:
        """How long a failure is left alone; of one the condition's time tells when it was."""
        if said is None or said.reason != _FAILED:
            return 0.0
        try:
            since = datetime.fromisoformat(said.last_transition_time)
        except ValueError:
            return 0.0
        return self._pace.failed - (self._clock() - since).total_seconds()

    async def _look(self, machine: VSphereMachine, gpus: int) -> Verdict:
        cluster = machine.metadata.labels.get(LABEL_CLUSTER, "")
        try:
            async with (
                asyncio.timeout(_LOOK_SECONDS),
                await reach(self._client, cluster, machine.metadata.namespace) as there,
            ):
                return await self._judge(there, machine, gpus)
        except UnreadableSecretError as error:
            message = f"the workload cluster {cluster} is not available: {error}"
            return Verdict(False, "KubeconfigForbidden", message, self._pace.forbidden)
        except TimeoutError:
            why = f"it does not answer within {_LOOK_SECONDS:.0f} s"
        except KubeError as error:
            why = str(error)
        message = f"the workload cluster {cluster} is not available: {why}"
        return Verdict(False, "WorkloadClusterUnreachable", message, self._pace.waiting)

    async def _judge(self, there: Client, machine: VSphereMachine, gpus: int) -> Verdict:
        node = await node_of(there, machine.spec.provider_id)
        waiting = self._pace.waiting
        if node is None:
            message = f"no node has the provider id {machine.spec.provider_id or '(none yet)'}"
            return Verdict(False, "NodeNotFound", message, waiting)
        name, shown = node.metadata.name, gpus_of(node)
        if shown < gpus:
            message = (
                f"node {name} shows {shown} {GPU}, and the VM has {gpus} GPUs; install "
                "NVIDIA's GPU operator, or its driver and device plugin, in the cluster"
            )
            return Verdict(False, "NoGPUResource", message, waiting)
        host = node.metadata.labels.get(LABEL_HOST, name)
        requested = job(job_name(machine.metadata.name), host, self._image, GPU)
        try:
            found = await there.get(JOBS, requested["metadata"]["name"], NAMESPACE)
        except NotFoundError:
            try:
                found = await there.create(JOBS, requested, NAMESPACE)
            except AlreadyExistsError:
                return Verdict(False, _RUNNING, _ADDING, self._pace.running)
        ended, why = outcome(found)
        if not ended:
            return Verdict(False, _RUNNING, _ADDING, self._pace.running)
        meta = found.metadata
        await _remove(there, meta.name, meta.uid)
        if why:
            message = f"the test Job on node {name} failed: {why}"
            return Verdict(False, _FAILED, message, self._pace.failed)
        message = f"node {name} shows {shown} {GPU}, and the test Job succeeded"
        return Verdict(True, "VectorAddSucceeded", message, None)

    async def _say(self, machine: VSphereMachine, verdict: Verdict) -> None:
        # Words of the workload cluster may be in it, which a terminal must not obey.
        shown = "".join(char if char.isprintable() else " " for char in verdict.message[:_LIMIT])
        verdict = verdict._replace(message=shown)
        status: ConditionStatus = "True" if verdict.holds else "False"
        new = Condition(
            type=CONDITION,
            status=status,
            reason=verdict.reason,
            message=verdict.message,
        )
        before = find_condition(machine.status.conditions, CONDITION)
        if before is not None and (before.status, before.reason, before.message) == (
            status,
            new.reason,
            new.message,
        ):
            return
        # Another reason restarts its time: it shows how long ago a failure was.
        kept = [before] if before is not None and before.reason == new.reason else []
        [condition] = set_condition(kept, new, timestamp(self._clock()))
        said = {"conditions": as_json([condition])}
        await apply(self._client, VSPHERE_MACHINES, machine, said, manager=FIELD_MANAGER)
        if verdict.holds or verdict.reason == _FAILED:
            self._recorder.record(
                VSPHERE_MACHINES.ref(machine),
                verdict.reason,
                verdict.message,
                warning=not verdict.holds,
            )


_FAILED = "VectorAddFailed"
_RUNNING = "VectorAddRunning"
_ADDING = "A test Job runs on the node"
_DEVICES_FIRST = Verdict(False, "DevicesNotReady", f"{DEVICES} has the details", None)
_LIMIT = 32768


def requested_gpus(spec: MachineSpec) -> int:
    """How many GPUs the node must show at least; 0: there is nothing to check."""
    requested: Requested = read(
        spec.pci_devices,
        pcidevices=spec.pcidevices,
        vgpudevices=spec.vgpudevices,
        peer_to_peer=spec.peer_to_peer,
    )[0]
    return sum(
        isinstance(one, VgpuRequest | GroupRequest)
        or (
            isinstance(one, PassthroughRequest)
            and all(ids.vendor == _NVIDIA for ids in one.allowed)
        )
        for one in requested.devices
    )


def gpus_of(node: Node) -> int:
    """How many GPUs a node has to give."""
    try:
        return quantity.value(str(node.status.allocatable.get(GPU, 0))) // quantity.NANO
    except ValueError:
        return 0


def job_name(machine: str) -> str:
    """Of the Job for a machine; it becomes a label, so it has 63 characters at most."""
    name = f"laneway-vector-add-{machine}"
    if len(name) <= _NAME_LIMIT:
        return name
    mark = hashlib.sha256(machine.encode()).hexdigest()[:8]
    return f"{name[: _NAME_LIMIT - 9].rstrip('-.')}-{mark}"


_NAME_LIMIT = 63


def _in_order(machine: VSphereMachine) -> bool:
    found = find_condition(machine.status.conditions, DEVICES)
    return found is not None and found.status == "True"


async def _remove(there: Client, name: str, uid: str) -> None:
    """Take the Job away, and its pod with it."""
    try:
        await there.delete(JOBS, name, NAMESPACE, uid=uid, propagation="Background")
    except NotFoundError:
        return
