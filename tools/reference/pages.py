"""Which pages there are, and which of them differ from what is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reference.chart import chart_values
from reference.commands import commands
from reference.hardware import models, profiles
from reference.keys import keys
from reference.kinds import kinds
from reference.metrics import metrics
from reference.reasons import reasons
from reference.statuses import statuses

FOLDER = Path(__file__).parents[2] / "docs/reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "exit-statuses.md": statuses,
    "reasons.md": reasons,
    "api.md": kinds,
    "chart-values.md": chart_values,
    "metrics.md": metrics,
    "labels.md": keys,
    "profiles.md": profiles,
    "models.md": models,
}


def stale() -> dict[str, str]:
    """The pages that are not as they would be made now, with what they would be."""
    found = {}
    for name, make in PAGES.items():
        path = FOLDER / name
        text = make()
        if not path.exists() or path.read_text() != text:
            found[name] = text
    return found
