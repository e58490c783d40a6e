"""How much is tried of a law: a tenth in `make test`, all in `make test-laws`, 3 tenths in CI."""

from __future__ import annotations

import os
from typing import Any

import pytest

TENTHS = int(os.environ.get("LANEWAY_TENTHS", "1"))


def many(examples: int) -> int:
    """So many examples, or the share of them that is tried."""
    return -(-examples * TENTHS // 10)


def first(value: Any, *others: Any) -> list[Any]:
    """Parameters of one story: `make test` has the first, `make test-laws` the others."""
    return [value, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]
