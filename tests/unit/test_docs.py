"""What the documentation promises to list is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laneway.core.refusals import Refusal, reason_of
from laneway.core.usability import Reason, ReasonKind, usable
from laneway.sim.models import MODELS

DOCS = Path(__file__).parents[2] / "docs"
TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text()
SIMULATION = (DOCS / "explanation/simulation.md").read_text()


@pytest.mark.parametrize("reason", sorted({reason_of(kind) for kind in Refusal.__subclasses__()}))
def test_every_refusal_is_explained(reason: str) -> None:
    assert f"| `{reason}` |" in TROUBLESHOOTING


@pytest.mark.parametrize(
    "kind", [kind for kind in ReasonKind if not usable([Reason(kind=kind)])], ids=str
)
def test_every_reason_that_forbids_a_claim_is_explained(kind: ReasonKind) -> None:
    assert f"`{kind.value}`" in TROUBLESHOOTING


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_is_described(model: str) -> None:
    assert f"| `{model}` |" in SIMULATION


PROVEN = re.findall(r"`(test_\w+)`", (DOCS / "how-to/vsphere.md").read_text())


def test_every_test_that_proves_a_promise_for_vsphere_is_there() -> None:
    assert len(PROVEN) > 30
    tests = {
        name
        for path in DOCS.parent.glob("tests/**/*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert not set(PROVEN) - tests
