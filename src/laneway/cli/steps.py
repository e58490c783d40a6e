"""The steps of a plan as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.cli.errors import one_line


def numbered(words: Sequence[str]) -> Iterator[str]:
    """The steps with their numbers, right under each other."""
    width = len(str(len(words)))
    for number, text in enumerate(words, 1):
        yield f"  {number:>{width}}. {one_line(text)}"
