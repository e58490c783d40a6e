"""How far an agent is, by its answer in the object."""

from __future__ import annotations

from typing import Any

from laneway.api import (
    Condition,
    SRIOVGPUDeviceStatus,
)
from laneway.views.answers import answer_of


def test_an_agent_answers_to_one_generation_only() -> None:
    def answer(status: Any, reason: str, generation: int = 1) -> str:
        found = Condition(type="Ready", status=status, reason=reason, observed_generation=1)
        return answer_of(SRIOVGPUDeviceStatus(conditions=[found]), generation).kind

    assert answer("True", "Enabled") == "done"
    assert answer("True", "Enabled", generation=2) == "none"
    assert answer("False", "InProgress") == "working"
    assert answer("False", "VgpusEnabled") == "refused"
    assert answer_of(SRIOVGPUDeviceStatus(), 1).kind == "none"
