"""What is done with writes of guest clusters and machine configurations: warned of, or refused.

Nothing is refused that was not judged. What could not be judged passes with a warning that says
why, and is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from laneway.admission.judging import AnyKind, Kind, Kinds
from laneway.admission.machine_pools import credentials
from laneway.admission.machine_pools.credentials import Permitted
from laneway.admission.machine_pools.managed import ManagedSource
from laneway.admission.machine_pools.metrics import PoolMetrics
from laneway.admission.request import Access, Request
from laneway.admission.verdict import ALLOWED, Granted, Rules, Verdict
from laneway.admission.wording import WARNING_LIMIT
from laneway.admission.world import World
from laneway.controllers.machine_pools.writes.case import Harvesters, Outcome, pools_of
from laneway.controllers.machine_pools.writes.clusters import changed_pools, of_cluster
from laneway.controllers.machine_pools.writes.configs import of_config, users_of
from laneway.kube.rancher import CONFIGS, GUEST_CLUSTERS, GuestCluster, MachineConfig
from laneway.kube.resource import Resource

log = logging.getLogger(__name__)


class PoolRules:
    """The rules, with what they look at."""

    def __init__(
        self,
        managed: ManagedSource,
        harvesters: Harvesters,
        metrics: PoolMetrics,
        *,
        refuses: bool = False,
        remembers: bool = True,
    ) -> None:
        """`refuses`: refuse writes of pools whose machines cannot all start, instead of warning.

        `remembers`: count what was admitted before it is stored. False where anybody may ask, who
        could pretend to write.
        """
        self._managed = managed
        self._harvesters = harvesters
        self._metrics = metrics
        self._refuses = refuses
        self._remembers = remembers

    @property
    def kinds(self) -> Kinds:
        """What there are rules for, by group and resource."""
        clusters: AnyKind = Kind(
            GUEST_CLUSTERS.kind,
            GuestCluster,
            Rules(self._judge_cluster, self._cluster_asks, self._knows),
            foreign=True,
            lenient=True,
        )
        configs = {_place(one): self._config_kind(one) for one in CONFIGS.values()}
        return {_place(GUEST_CLUSTERS): clusters, **configs}

    def _config_kind(self, resource: Resource[MachineConfig]) -> AnyKind:
        def asks(request: Request[MachineConfig], _world: World) -> Iterator[Access]:
            if request.new is not None:
                for cluster, pools in users_of(self._managed.managed(), resource.kind, request.new):
                    yield from credentials.rights(cluster, pools)

        def judge(request: Request[MachineConfig], _world: World, granted: Granted) -> Verdict:
            if request.new is None:
                return ALLOWED
            outcome = self._unchecked() or of_config(
                resource.kind,
                request.old,
                request.new,
                self._managed.managed(),
                Permitted(self._harvesters, granted),
            )
            return self._verdict(request, resource.kind, outcome)

        return Kind(resource.kind, MachineConfig, Rules(judge, asks), foreign=True, lenient=True)

    @staticmethod
    def _cluster_asks(request: Request[GuestCluster], _world: World) -> Iterator[Access]:
        if request.new is not None:
            yield from credentials.rights(request.new, changed_pools(request.old, request.new))

    def _judge_cluster(
        self, request: Request[GuestCluster], _world: World, granted: Granted
    ) -> Verdict:
        if request.new is None or not changed_pools(request.old, request.new):
            return ALLOWED
        outcome = self._unchecked() or of_cluster(
            request.old,
            request.new,
            self._managed.managed(),
            Permitted(self._harvesters, granted),
        )
        return self._verdict(request, GUEST_CLUSTERS.kind, outcome)

    def _unchecked(self) -> Outcome | None:
        """That nothing is checked while the management cluster cannot be read."""
        why = self._managed.trouble
        return Outcome(unchecked=(f"Laneway did not check machine pools: {why}.",)) if why else None

    def _knows(self, request: Request[GuestCluster], _world: World) -> bool:
        """Whether the configurations are known that a cluster names: they are created just before.

        Both may be created at once.
        """
        if request.new is None:
            return True
        changed = changed_pools(request.old, request.new)
        refs = [one.machine_config_ref for one in pools_of(request.new) if one.name in changed]
        return all(
            self._managed.config(one.kind, one.name, request.namespace) is not None for one in refs
        )

    def _verdict(
        self, request: Request[GuestCluster] | Request[MachineConfig], kind: str, outcome: Outcome
    ) -> Verdict:
        if outcome.unchecked:
            self._metrics.unchecked()
            title = f"{request.namespace}/{request.name}"
            log.warning("%s %s passes: %s", kind, title, " ".join(outcome.unchecked))
        if self._refuses and outcome.refusals:
            return Verdict(refusals=outcome.refusals)
        if self._remembers and request.new is not None and not request.dry_run:
            self._managed.admit(kind, request.new)
        said = [*(one.words for one in (*outcome.refusals, *outcome.warnings)), *outcome.unchecked]
        return Verdict(warnings=tuple(part for text in said for part in _parts(text)))


def _place(resource: Resource[GuestCluster] | Resource[MachineConfig]) -> tuple[str, str]:
    return resource.group, resource.plural


def _parts(text: str) -> Iterator[str]:
    """A text as warnings, none of which is longer than clients are given."""
    while len(text) > WARNING_LIMIT:
        cut = text[:WARNING_LIMIT]
        end = max(cut.rfind(mark) for mark in (". ", "; ")) + 1
        if end <= 0:
            end = max(cut.rfind(" "), 1)
        yield text[:end].rstrip()
        text = text[end:].lstrip()
    yield text
