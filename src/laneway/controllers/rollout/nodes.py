"""The manager's part in preparing nodes: what each is to have, and when it may reboot.

A node is looked at by itself, but never two at once: whether one may go depends on who is away. The
moment a reboot begins, all preparations are read from the server again, as the cache may not show
yet what was begun a moment ago. What was decided is stored before it is done, and what is taken
back is done before that is stored; so a manager that is killed in between leaves nothing behind
that its successor does not know of.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.api import CoreNode, HostPolicy, HostPreparation, HostRollout, ObjectMeta, replacing
from laneway.controllers.cluster.caches import NODE, Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.preparation.settings import fields_of, wanted_of
from laneway.controllers.rollout import draining
from laneway.controllers.rollout.asked import Merged, merged, requested_by, selecting
from laneway.controllers.rollout.observing import (
    Standing,
    node_of,
    rollout_of,
    standing_of,
    stored,
    terms_of,
    vms_of,
)
from laneway.controllers.written import Written
from laneway.core import keys
from laneway.core.rollout.node import AWAY, Rollout, Stage, next_step
from laneway.core.rollout.terms import Terms
from laneway.core.tracing import Span, Tracer, about, root
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import served

log = logging.getLogger(__name__)

ACTIVE_SECONDS = 2.0
"""How often a node is looked at that is on its way."""
WAITING_SECONDS = 30.0
"""How often one is that waits: a window opens without an event."""
LAG_SECONDS = 0.5
_NODES = served(CoreNode)
_PREPARATIONS = served(HostPreparation)


class _Case(NamedTuple):
    """A node, what is stored about it, and what its policies ask."""

    node: CoreNode
    known: HostPreparation
    policies: Sequence[HostPolicy]
    asked: Merged

    def all_say(self, of: Callable[[HostRollout], bool]) -> bool:
        """Whether all policies of the node, of which there is one, say so."""
        return bool(self.policies) and all(of(one.spec.rollout) for one in self.policies)


class Rollouts(Leading[str]):
    """Works on names of nodes."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        metrics: ManagerMetrics,
        recorder: EventRecorder,
        *,
        clock: Callable[[], float] = time.time,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__()
        self._tracer = tracer
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self._recorder = recorder
        self._clock = clock
        self._written = Written()
        self._standings: dict[str, Standing] = {}
        """Of policies, by name, as long as nothing changes: many nodes ask for the same."""
        self.needs = (caches.nodes, caches.policies, caches.preparations)
        caches.nodes.subscribe(self._node_changed)
        caches.policies.subscribe(self._policy_changed)
        caches.preparations.follow(self._preparation_changed)
        caches.instances.follow(lambda one: self.ask(filter(None, [one.status.node_name])))

    def everything(self) -> Iterable[str]:
        return {one.metadata.name for one in self._caches.nodes.store}

    def _node_changed(self, before: CoreNode | None, after: CoreNode | None) -> None:
        changed = after or before
        if changed is None:
            return
        self.ask([changed.metadata.name])
        if before is None or after is None or _presence(before) != _presence(after):
            self._ask_waiting()

    def _policy_changed(self, before: HostPolicy | None, after: HostPolicy | None) -> None:
        if before is None or after is None or before.spec != after.spec:
            self._standings.clear()
            self.ask(self.everything())

    def _preparation_changed(self, changed: HostPreparation) -> None:
        self.ask([changed.metadata.name])
        if changed.spec.rollout.stage in ("", Stage.FAILED):
            self._ask_waiting()
        else:
            self._standings.clear()

    def _ask_waiting(self) -> None:
        """Look again at nodes that may wait for the place of another."""
        self._standings.clear()
        stores = self._caches.preparations.store
        self.ask(one.metadata.name for one in stores if one.spec.rollout.stage)

    # ------------------------------------------------------------------------------ one node

    async def reconcile(self, key: str) -> Retry | None:
        """Do what comes next for a node."""
        node = self._caches.nodes.store.get(key)
        known = self._caches.preparations.store.get(key)
        if node is None:
            return None  # its objects are removed with it
        if lag := self._written.lag(key, known.metadata if known is not None else None):
            return Retry(min(lag, LAG_SECONDS))
        policies = selecting(self._caches.policies.store, node)
        if known is None and not policies:
            return None
        asked = merged(policies)
        try:
            if await self._ask_of(key, known, policies, asked):
                return Retry(LAG_SECONDS)
            return await self._advance(_Case(node, known, policies, asked)) if known else None
        except ConflictError:
            return Retry(LAG_SECONDS)
        except (NotFoundError, AlreadyExistsError):
            return None  # the watch shows it

    async def _ask_of(
        self,
        name: str,
        known: HostPreparation | None,
        policies: Sequence[HostPolicy],
        asked: Merged,
    ) -> bool:
        """Write what a node is to have, where it is not written; whether it was."""
        began = time.time_ns()
        names = [one.metadata.name for one in policies]
        paused = any(one.spec.rollout.paused for one in policies)
        if known is not None:
            same = list(known.spec.policies) == names and known.spec.paused == paused
            if same and (not names or asked.problem or wanted_of(known.spec) == asked.wanted):
                return False
        elif asked.problem:
            return False
        spec: dict[str, Any] = {"policies": names, "paused": paused}
        # Without a policy, and while policies contradict each other, what was asked before stands.
        if names and not asked.problem:
            spec |= fields_of(asked.wanted)
        user = requested_by(policies)
        note = {keys.ANNOTATION_REQUESTED_BY: user} if user else {}
        if known is None:
            body = {
                "apiVersion": _PREPARATIONS.api_version,
                "kind": _PREPARATIONS.kind,
                "metadata": {"name": name, "annotations": note},
                "spec": spec,
            }
            answer = await self._client.create(_PREPARATIONS, body)
            self._metrics.wrote("create", _PREPARATIONS.kind)
        else:
            version = known.metadata.resource_version
            body = {"metadata": {"resourceVersion": version, "annotations": note}, "spec": spec}
            answer = await self._client.patch(_PREPARATIONS, name, body)
            self._metrics.wrote("patch", _PREPARATIONS.kind)
        self._written.note(answer.metadata)
        self._trace(policies, answer.metadata, began)
        return True

    def _trace(self, policies: Sequence[HostPolicy], written: ObjectMeta, began: int) -> None:
        """Tell that policies led to what a node is to have, in the trace of each of them."""
        if self._tracer is None:
            return
        follows = root(written.uid, written.generation)
        for one in policies:
            meta = one.metadata
            above = root(meta.uid, meta.generation)
            span = above.child("reconcile", written.uid, began)
            attributes = about("HostPolicy", meta.name, meta.uid, meta.generation)
            attributes["k8s.node.name"] = written.name
            name, ended = "reconcile HostPolicy", time.time_ns()
            self._tracer(Span(span, above.span, name, began, ended, attributes, links=(follows,)))

    async def _advance(self, case: _Case) -> Retry | None:
        if not (self._caches.instances.synced.is_set() or self._caches.instances.unserved):
            return Retry(LAG_SECONDS)  # which VMs run is not known
        node, rollout = case.node, rollout_of(case.known.spec.rollout)
        instances = self._caches.instances.store.by(NODE, node.metadata.name)
        vms = vms_of(instances)
        left = draining.Left()
        if rollout.stage is Stage.DRAINING and not case.all_say(lambda one: one.skip_drain):
            left = await draining.pods_on(self._client, node.metadata.name)
        seen = node_of(node, case.known, vms, left.names)
        step = next_step(seen, rollout, self._terms(case, self._standing), self._clock())
        if step.rollout.stage is Stage.DRAINING is not rollout.stage:
            known = await self._fresh()
            terms = self._terms(case, lambda one: self._look(one, known))
            step = next_step(seen, rollout, terms, self._clock())
        if step.cordon is False and node.spec.unschedulable:
            await self._cordon(node, cordoned=False)
        if step.rollout != rollout:
            await self._store(case, step.rollout)
        if step.cordon and not node.spec.unschedulable:
            await self._cordon(node, cordoned=True)
        elif step.drain:
            await draining.evict(self._client, left.evictable)
            stop = case.all_say(lambda one: one.stop_vms)
            await draining.move(self._client, instances, vms, stop=stop)
        return _again(step.rollout)

    def _terms(self, case: _Case, standing: Callable[[HostPolicy], Standing]) -> list[Terms]:
        """What all policies of a node say about its reboot."""
        if case.asked.problem:
            return [Terms(policy="", invalid=case.asked.problem)]
        name, now = case.node.metadata.name, self._clock()
        return [terms_of(one, name, standing(one), now) for one in case.policies]

    def _standing(self, policy: HostPolicy) -> Standing:
        """How the nodes of a policy are, as the caches have it."""
        name = policy.metadata.name
        if name not in self._standings:
            known = {one.metadata.name: one for one in self._caches.preparations.store}
            self._standings[name] = self._look(policy, known)
        return self._standings[name]

    def _look(self, policy: HostPolicy, known: Mapping[str, HostPreparation]) -> Standing:
        return standing_of(policy, self._caches.nodes.store, known)

    async def _fresh(self) -> dict[str, HostPreparation]:
        """Every preparation as the server has it now."""
        found = {}
        async for page in self._client.list(_PREPARATIONS):
            for item in page.items:
                one = _PREPARATIONS.decode(item)
                found[one.metadata.name] = one
        return found

    async def _store(self, case: _Case, rollout: Rollout) -> None:
        meta = case.known.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "spec": {"rollout": replacing(stored(rollout)) if rollout.stage else None},
        }
        answer = await self._client.patch(_PREPARATIONS, meta.name, body)
        self._written.note(answer.metadata)
        self._metrics.wrote("patch", _PREPARATIONS.kind)
        if rollout.stage.value != case.known.spec.rollout.stage:
            self._tell(case.node, rollout)

    def _tell(self, node: CoreNode, rollout: Rollout) -> None:
        """An event on the node for each stage that people want to know of."""
        name = node.metadata.name
        log.info("node %s: %s. %s", name, rollout.stage or "nothing to do", rollout.message)
        if rollout.stage in AWAY or rollout.stage is Stage.FAILED:
            failed = rollout.stage is Stage.FAILED
            text = f"{rollout.stage}: {rollout.message}"
            self._recorder.record(_NODES.ref(node), "HostRollout", text, warning=failed)

    async def _cordon(self, node: CoreNode, *, cordoned: bool) -> None:
        name = node.metadata.name
        body = {
            "metadata": {"uid": node.metadata.uid},
            "spec": {"unschedulable": cordoned or None},
        }
        await self._client.patch(_NODES, name, body)
        self._metrics.wrote("patch", _NODES.kind)
        log.info("node %s is %s", name, "cordoned" if cordoned else "uncordoned")


def _again(rollout: Rollout) -> Retry | None:
    if rollout.stage in AWAY:
        return Retry(ACTIVE_SECONDS)
    return Retry(WAITING_SECONDS) if rollout.stage else None


def _presence(node: CoreNode) -> tuple[object, ...]:
    """What of a node concerns its neighbours."""
    ready = [one.status for one in node.status.conditions if one.type == "Ready"]
    return node.spec.unschedulable, ready, node.metadata.labels
