"""How much is tried: little of a law in `make test`, all of it in `make test-laws`."""

from __future__ import annotations

import os
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("LANEWAY_THOROUGH"))


def many(examples: int) -> int:
    """So many examples, or a tenth of them."""
    return examples if THOROUGH else -(-examples // 10)


def first(value: Any, *others: Any) -> list[Any]:
    """Parameters of one story: `make test` has the first, `make test-laws` the others."""
    return [value, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]
