"""How long an agent's controllers wait: nothing announces that these things have changed."""

from __future__ import annotations

from typing import NamedTuple


class Timing(NamedTuple):
    """In seconds."""

    retry: float = 30.0
    """Until the next attempt while nothing has changed: people let devices go, not computers."""
    holder: float = 1.0
    """How often to see whether the processes that hold a device are still there."""
    put_back: float = 1.0
    """How often at most a GPU's desired states are put back: another client may insist too."""
    sum: float = 1.0
    """How long the writer of a layout's entry has to bring the sum up to date before others do."""
    renumber: float = 5.0
    """After the API server or the state folder refused that a desired state follows its card."""
    measure: float = 30.0
    """Between two questions to the driver about what it measures of GPUs and vGPUs."""
