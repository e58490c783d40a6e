"""What the documentation promises to list is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laneway.sim.models import MODELS

DOCS = Path(__file__).parents[2] / "docs"
SIMULATION = (DOCS / "explanation/simulation.md").read_text()


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_is_described(model: str) -> None:
    assert f"| `{model}` |" in SIMULATION


PROVEN = re.findall(r"`(test_\w+)`", (DOCS / "explanation/vsphere.md").read_text())


def test_every_test_that_proves_a_promise_for_vsphere_is_there() -> None:
    assert len(PROVEN) > 30
    tests = {
        name
        for path in DOCS.parent.glob("tests/**/*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert not set(PROVEN) - tests
