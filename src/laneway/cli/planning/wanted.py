"""Profiles as people write them, in the names that the GPUs of a fleet have for them."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.cli import capacity_question as question
from laneway.cli.errors import Failure
from laneway.core.fleet import board
from laneway.core.fleet.model import Fleet


def in_full(fleet: Fleet, asked: Mapping[str, int]) -> dict[str, int]:
    """The same by full names. Raises Failure where no GPU offers one."""
    profiles = board.by_resource(fleet)
    found: dict[str, int] = {}
    for resource, count in question.in_full(asked, profiles).items():
        if resource not in profiles:
            raise Failure(f"no GPU offers {resource} as a time-sliced vGPU")
        found[profiles[resource]] = count
    return found
