"""The question after a name that is not known: "Did you mean A2-4Q?"."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """`Did you mean A2-4Q or A2-4C?`; empty where nothing known is like the text."""
    from laneway.core.phrases import closest, line  # noqa: PLC0415 - needed after a mistake only

    found = [line(name) for name in closest(text, known)]
    if not found:
        return ""
    *others, last = found
    return f"Did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
