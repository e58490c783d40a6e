"""Everything that can be said about a node from its facts."""

from __future__ import annotations

from laneway.core.doctor import cards, device_plugin, kernel
from laneway.core.doctor.finding import Finding
from laneway.core.doctor.node_facts import NodeFacts


def judge(facts: NodeFacts) -> list[Finding]:
    """All findings, in the order in which a person would go through them."""
    return [*kernel.judge(facts), *cards.judge(facts), *device_plugin.judge(facts)]
