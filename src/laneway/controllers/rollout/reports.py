"""What HostPolicies say of their nodes.

A roll-out over many nodes changes its policy's status often, and each change is seen by all who
watch; so it is written once a second at the most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from laneway.api import (
    Condition,
    CoreNode,
    HostPolicy,
    HostPolicyNode,
    HostPolicyStatus,
    HostPreparation,
    replacing,
)
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.devices.family import merge_conditions, ready
from laneway.controllers.publisher import timestamp
from laneway.controllers.rollout.asked import Merged, merged, problems, selected, selecting
from laneway.controllers.rollout.observing import node_of, rollout_of
from laneway.core.rollout.node import Stage, shown
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.resource import served

EVERY_SECONDS = 1.0
_POLICIES = served(HostPolicy)


class Reports(Leading[str]):
    """Works on names of policies."""

    def __init__(self, client: Client, caches: Caches, metrics: ManagerMetrics) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self.needs = (caches.nodes, caches.policies, caches.preparations)
        caches.policies.subscribe(self._policy_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.preparations.subscribe(self._preparation_changed)

    def everything(self) -> Iterable[str]:
        return [one.metadata.name for one in self._caches.policies.store]

    def _policy_changed(self, before: HostPolicy | None, after: HostPolicy | None) -> None:
        if before is None or after is None or before.spec != after.spec:
            self.ask(self.everything())  # policies may contradict each other, or do so no more
        elif before.status != after.status:
            self.ask([after.metadata.name])  # by hand

    def _node_changed(self, before: CoreNode | None, after: CoreNode | None) -> None:
        if (before and before.metadata.labels) == (after and after.metadata.labels):
            return
        was, now = (self._names(node) if node else () for node in (before, after))
        if was != now:
            self.ask({*was, *now})  # those that stay may contradict one that comes or goes

    def _names(self, node: CoreNode) -> tuple[str, ...]:
        """The policies that select a node."""
        found = selecting(self._caches.policies.store, node)
        return tuple(one.metadata.name for one in found)

    def _preparation_changed(
        self, before: HostPreparation | None, after: HostPreparation | None
    ) -> None:
        changed = after or before
        node = changed and self._caches.nodes.store.get(changed.metadata.name)
        if node:
            policies = selecting(self._caches.policies.store, node)
            for policy in policies:
                if self.leading:
                    self.queue.add_after(policy.metadata.name, EVERY_SECONDS)

    async def reconcile(self, key: str) -> Retry | None:
        """Write what is to be said of a policy, where it is not said."""
        policy = self._caches.policies.store.get(key)
        if policy is None or policy.metadata.deletion_timestamp:
            return None
        nodes = selected(policy, self._caches.nodes.store)
        entries = [self._entry(node) for node in nodes]
        condition = self._condition(policy, nodes, entries)
        meta, now = policy.metadata, timestamp()
        conditions = merge_conditions(policy.status.conditions, [condition], meta.generation, now)
        done = sum(one.stage == Stage.READY for one in entries)
        status = HostPolicyStatus(
            observed_generation=meta.generation,
            conditions=conditions,
            nodes=entries,
            summary=f"{done} of {len(entries)}",
        )
        if status == policy.status:
            return None
        version = {"resourceVersion": meta.resource_version}
        body = {"metadata": version, "status": replacing(status)}
        try:
            await self._client.patch(_POLICIES, key, body, subresource="status")
        except ConflictError:
            return Retry(EVERY_SECONDS)
        except NotFoundError:
            return None
        self._metrics.wrote("patch status", _POLICIES.kind)
        return None

    def _entry(self, node: CoreNode) -> HostPolicyNode:
        name = node.metadata.name
        known = self._caches.preparations.store.get(name)
        if known is None:
            return HostPolicyNode(name=name, message="The node is not looked at yet.")
        rollout = rollout_of(known.spec.rollout)
        seen = node_of(node, known, ())
        stage = shown(seen.agent, rollout)
        message = rollout.message or seen.agent_message
        if not stage:
            message = "The agent of the node has not answered yet."
        return HostPolicyNode(name=name, stage=stage, message=message)

    def _condition(
        self, policy: HostPolicy, nodes: Sequence[CoreNode], entries: Sequence[HostPolicyNode]
    ) -> Condition:
        """What the policy comes to as a whole; the worst is said first."""
        if wrong := problems(policy):
            return ready("InvalidPolicy", f"Nothing is changed: {'; '.join(wrong)}.", status=False)
        if not nodes:
            why = "No node has the labels and names of spec.nodeSelector. Check them."
            return ready("NoNodeMatches", why, status=False)
        known: dict[tuple[str, ...], Merged] = {}
        for node in nodes:
            # Of many nodes few combinations of policies are asked for.
            names = self._names(node)
            if (asked := known.get(names)) is None:
                asked = known[names] = merged(selecting(self._caches.policies.store, node))
            if asked.problem:
                why = f"Node {node.metadata.name} stays as it is: {asked.problem}"
                return ready("PolicyContradiction", why, status=False)
        failed = [one for one in entries if one.stage == Stage.FAILED]
        if failed:
            more = f" ({len(failed) - 1} more failed.)" if len(failed) > 1 else ""
            why = f"Node {failed[0].name}: {failed[0].message}{more}"
            return ready("NodeFailed", why, status=False)
        if policy.spec.rollout.paused:
            return ready("Paused", "The roll-out is paused.", status=False)
        counts = Counter(one.stage or "not answered" for one in entries)
        if set(counts) <= {Stage.READY}:
            return ready("RolledOut", "Every node has everything that the policy requests.")
        words = ", ".join(f"{count} {stage}" for stage, count in sorted(counts.items()))
        return ready("InProgress", f"Nodes by stage: {words}.", status=False)
