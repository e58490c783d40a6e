"""How much of a law is tried: a tenth in `make test`, all of it in `make test-laws`."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("LANEWAY_THOROUGH"))


def many(examples: int) -> int:
    """So many examples, or a tenth of them."""
    return examples if THOROUGH else -(-examples // 10)
