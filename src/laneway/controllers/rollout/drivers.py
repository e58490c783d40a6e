"""Brings another driver to one node after the other, by replacing the driver toolkit's pods.

The DaemonSet changes no pod by itself. Its template carries a hash of what is requested, and a pod
that carries another is deleted once nothing on its node needs the driver. The toolkit refuses to
replace a driver that is in use, too; this spares a node even the seconds without its daemons.

The moment a pod is to be deleted, the DaemonSet and its pods are read from the server again, as the
caches may not show yet what was begun a moment ago. A DaemonSet of the same name that is not
Laneway's, as that of Harvester's add-on, is left alone with its pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from laneway.api import CoreNode, find_condition
from laneway.controllers.cluster.caches import NODE, Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.devices.driver import driver_failed, driver_of, not_in_service
from laneway.controllers.rollout.observing import FINAL
from laneway.core.phrases import few
from laneway.core.rollout.drivers import DriverPod, Next, next_pod
from laneway.core.rollout.node import AWAY
from laneway.host.executors.pod import SELECTOR
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.pods import DAEMON_SETS, PODS, DaemonSet, Pod, is_ready
from laneway.kube.resource import key_of, served

log = logging.getLogger(__name__)

DAEMON_SET = "nvidia-driver-runtime"
ANNOTATION = "laneway.io/driver"
"""On the template and its pods: a hash of what is requested."""
OURS = {
    "app.kubernetes.io/part-of": "laneway",
    "app.kubernetes.io/component": "driver-toolkit",
}
"""Labels of Laneway's own DaemonSet."""
BUSY_SECONDS = 5.0
WAITING_SECONDS = 30.0
_NODES = served(CoreNode)
_KEY = "drivers"
"""There is one thing to look at."""


class Drivers(Leading[str]):
    """The part of the manager that replaces driver pods."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        caches: Caches,
        metrics: ManagerMetrics,
        recorder: EventRecorder,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self._caches = caches
        self._metrics = metrics
        self._recorder = recorder
        self._clock = clock
        self._sets: Informer[DaemonSet] = self._set_informer()
        self._pods: Informer[Pod] = self._pod_informer()
        self._told: dict[str, str] = {}
        """Reasons of events with what they said last."""
        for informer in (caches.instances, caches.vgpus, caches.claims, caches.device_nodes):
            informer.subscribe(self._changed)

    def _set_informer(self) -> Informer[DaemonSet]:
        only = f"metadata.name={DAEMON_SET}"
        return Informer(self._client, DAEMON_SETS, self._namespace, field_selector=only)

    def _pod_informer(self) -> Informer[Pod]:
        return Informer(self._client, PODS, self._namespace, label_selector=SELECTOR)

    def _changed(self, _before: object, _after: object) -> None:
        self.ask(self.everything())

    @property
    def daemon_set(self) -> DaemonSet | None:
        """The DaemonSet as it is known, also one that is not Laneway's."""
        return self._sets.store.get(DAEMON_SET, self._namespace)

    def everything(self) -> Iterable[str]:
        return [_KEY]

    async def run(self) -> None:
        """Lead until cancelled; nothing is remembered from before."""
        self._told = {}
        self._sets, self._pods = self._set_informer(), self._pod_informer()
        known = self._caches
        self.needs = (known.nodes, known.device_nodes, known.claims, known.vgpus)
        self.needs = (*self.needs, known.preparations, self._sets, self._pods)
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._sets, self._pods):
                informer.subscribe(self._changed)
                tasks.create_task(informer.run())
            tasks.create_task(super().run())

    # ------------------------------------------------------------------------------- one look

    async def reconcile(self, _key: str) -> Retry | None:
        """Replace a pod, if it is time for one."""
        found = self.daemon_set
        if found is None or not (wanted := _wanted(found)):
            return None
        instances = self._caches.instances
        if not (instances.synced.is_set() or instances.unserved):
            return Retry(BUSY_SECONDS)  # which VMs run is not known
        step = self._step(found, wanted, self._pods.store)
        if step.replace is not None:
            step = await self._replace()
        self._tell(found, step)
        if step.busy or step.replace:
            return Retry(BUSY_SECONDS)
        return Retry(WAITING_SECONDS) if step.stopped or step.waits else None

    async def _replace(self) -> Next:
        """Decide again by what the server has now, and delete the pod that is still the next."""
        try:
            found = await self._client.get(DAEMON_SETS, DAEMON_SET, self._namespace)
        except NotFoundError:
            return Next()
        if not (wanted := _wanted(found)):
            return Next()
        pods: dict[str, Pod] = {}
        async for page in self._client.list(PODS, self._namespace, label_selector=SELECTOR):
            pods |= {one.metadata.name: one for one in map(PODS.decode, page.items)}
        step = self._step(found, wanted, pods.values())
        if step.replace is None:
            return step
        meta = pods[step.replace.name].metadata
        with contextlib.suppress(NotFoundError, ConflictError):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
            self._metrics.wrote("delete", "Pod")
        return step

    def _step(self, found: DaemonSet, wanted: str, pods: Iterable[Pod]) -> Next:
        status = found.status
        if status.observed_generation < found.metadata.generation:
            return Next(busy="The DaemonSet's controller has not seen its change.")
        mine = [one for one in pods if _belongs(one, found)]
        outdated = {one.spec.node_name for one in mine if not _is_current(one, wanted)}
        held = self._held(outdated) if outdated else {}
        seen = [self._seen(one, wanted, held) for one in mine]
        return next_pod(seen, status.desired_number_scheduled)

    def _seen(self, pod: Pod, wanted: str, held: Mapping[str, Sequence[str]]) -> DriverPod:
        meta, node, now = pod.metadata, pod.spec.node_name, self._clock()
        ready = find_condition(pod.status.conditions, "Ready")
        made = _moment(meta.creation_timestamp, now)
        current = _is_current(pod, wanted)
        return DriverPod(
            node,
            meta.name,
            current=current,
            ready=is_ready(pod),
            going=bool(meta.deletion_timestamp),
            age=now - made,
            unchanged=now - (_moment(ready.last_transition_time, now) if ready else made),
            failed=self._failed(node),
            held=few(found) if (found := held.get(node)) and not current else "",
        )

    def _failed(self, node: str) -> str:
        agent = self._caches.device_nodes.store.get(node)
        said = driver_of(agent.status.conditions) if agent is not None else None
        return not_in_service(said) if driver_failed(said) else ""

    def _held(self, nodes: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Why the driver of nodes is not replaced now."""
        caches = self._caches
        held: dict[str, list[str]] = {node: list(self._away(node)) for node in nodes}
        for node, named in held.items():
            named.extend(
                f"VM {key_of(one)} has devices"
                for one in caches.instances.store.by(NODE, node)
                if one.spec.domain.devices.all and one.status.phase not in FINAL
            )
        for vgpu in caches.vgpus.store:
            status = vgpu.status
            if vgpu.spec.enabled or status.vgpu_status or status.allocation is not None:
                of_node = held.get(vgpu.spec.node_name, [])
                of_node.append(f"vGPU {vgpu.metadata.name} is configured")
        for claim in caches.claims.store:
            if claim.status.allocation is not None:
                of_node = held.get(claim.spec.node_name, [])
                of_node.append(f"PCIDeviceClaim {claim.metadata.name} is allocated")
        return held

    def _away(self, node: str) -> Iterator[str]:
        known = self._caches.nodes.store.get(node)
        ready = find_condition(known.status.conditions, "Ready") if known is not None else None
        if ready is not None and ready.status != "True":
            yield "the node is not ready"
        preparation = self._caches.preparations.store.get(node)
        if preparation is not None and preparation.spec.rollout.stage in AWAY:
            yield "the node is on its way to a reboot"

    # ---------------------------------------------------------------------------- what is told

    def _tell(self, found: DaemonSet, step: Next) -> None:
        """Events on the DaemonSet, and on the node that they are about; each text once.

        What no longer holds is told again when it comes back, as in the next upgrade.
        """
        if step.busy:
            return  # what was told is not judged meanwhile
        if step.replace is not None:
            text = f"Node {step.node}: pod {step.replace.name} is replaced."
            self._record(found, "DriverUpgrade", text, step.node)
        if step.waits:
            self._record(found, "DriverUpgradeWaits", step.waits)
        else:
            self._told.pop("DriverUpgradeWaits", None)
        if step.stopped:
            text = f"No further node gets the new driver. {step.stopped}"
            self._record(found, "DriverUpgradeStopped", text, step.node, warning=True)
        else:
            self._told.pop("DriverUpgradeStopped", None)

    def _record(
        self, found: DaemonSet, reason: str, text: str, node: str = "", *, warning: bool = False
    ) -> None:
        if self._told.get(reason) == text:
            return
        self._told[reason] = text
        log.log(logging.WARNING if warning else logging.INFO, "driver toolkit: %s", text)
        self._recorder.record(DAEMON_SETS.ref(found), reason, text, warning=warning)
        known = self._caches.nodes.store.get(node) if node else None
        if known is not None:
            self._recorder.record(_NODES.ref(known), reason, text, warning=warning)


def _wanted(found: DaemonSet) -> str:
    """The hash of what is requested; empty where the DaemonSet is not Laneway's."""
    if not OURS.items() <= found.metadata.labels.items() or found.metadata.deletion_timestamp:
        return ""
    return found.spec.template.metadata.annotations.get(ANNOTATION, "")


def _is_current(pod: Pod, wanted: str) -> bool:
    return pod.metadata.annotations.get(ANNOTATION) == wanted


def _belongs(pod: Pod, to: DaemonSet) -> bool:
    owners = pod.metadata.owner_references
    return bool(pod.spec.node_name) and any(
        one.controller and one.uid == to.metadata.uid for one in owners
    )


def _moment(text: str, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return otherwise
