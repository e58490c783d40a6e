"""What texts say about a reason."""

from __future__ import annotations

from typing import NamedTuple


class ReasonText(NamedTuple):
    """One public reason: a word that clients compare, and what it means. The texts are Markdown."""

    reason: str
    where: str
    """The section of the reference in which it stands."""
    on: str
    """Kinds that have it, or commands that print it."""
    meaning: str
    remedy: str
