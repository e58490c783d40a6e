"""A policy for hosts is traced from the manager to the plan on the node."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import HostPolicy, HostPreparation
from laneway.core.tracing import Span, root


@pytest.fixture
def spans(cluster: Any) -> list[Span]:
    """What manager and agents of this test tell; to be asked for before `world`."""
    found: list[Span] = []
    cluster.tracer = found.append
    return found


async def test_the_managers_span_leads_to_the_trace_of_each_nodes_preparation(
    cluster: Any, spans: list[Span], world: Any, policy: Any, reason: Any
) -> None:
    await world.add_server("n1", "a2,iommu=off")
    await policy()
    await reason("gpus", "RolledOut")

    policy_root, preparation_root = [
        root(one.metadata.uid, 1)
        for one in (await cluster.get(HostPolicy, "gpus"), await cluster.get(HostPreparation, "n1"))
    ]
    (managed,) = [span for span in spans if span.name == "reconcile HostPolicy"]
    assert (managed.id.trace, managed.parent) == policy_root
    assert managed.links == (preparation_root,)
    done = [span for span in spans if span.id.trace == preparation_root.trace]
    plan = next(span for span in done if span.name == "carry out")
    assert plan.parent == preparation_root.span
    assert {span.name for span in done if span.parent == plan.id.span} >= {"SetBootArguments"}
    assert "intel_iommu" not in str(done)
