"""The steps of a plan, counted."""

from __future__ import annotations


def step_count(number: int) -> str:
    """`1 step`, `2 steps`."""
    return "1 step" if number == 1 else f"{number} steps"
