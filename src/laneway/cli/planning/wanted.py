"""Profiles as people write them, in the names that the GPUs of a fleet have for them."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.cli import profile_names
from laneway.core.fleet import board
from laneway.core.fleet.model import Fleet


def in_full(fleet: Fleet, asked: Mapping[str, int]) -> dict[str, int]:
    """The same by full names. Raises Failure where a name is unknown or ambiguous."""
    driver = {name for gpu in fleet.gpus for name in gpu.profiles}
    catalogue = {name for gpu in fleet.gpus for name in board.card(gpu).kinds}
    return profile_names.in_full(asked, driver, catalogue)
