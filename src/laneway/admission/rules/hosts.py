"""HostPolicies: what hosts are to have, judged by itself.

Whether two policies contradict each other depends on labels of nodes, which change without them; so
that is told in their status.
"""

from __future__ import annotations

from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.world import World
from laneway.api import HostPolicy
from laneway.controllers.rollout.asked import problems
from laneway.core.refusals import HostPolicyInvalid


def _node_of(_policy: HostPolicy, _world: World) -> str:
    return ""


def _create(case: Case[HostPolicy], new: HostPolicy) -> Findings:
    if found := problems(new):
        yield HostPolicyInvalid(case.name, found)


def _update(case: Case[HostPolicy], old: HostPolicy, new: HostPolicy) -> Findings:
    if old.spec != new.spec:
        yield from _create(case, new)


RULES = rules(Parts(node_of=_node_of, create=_create, update=_update))
