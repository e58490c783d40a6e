"""Parts of sentences that more than one message is made of."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST_QUOTE = 64


def listed(names: Iterable[str]) -> str:
    """The names, or that there is none."""
    return ", ".join(names) or "none"


def quoted(text: str) -> str:
    """What somebody wrote, however odd and long, as a part of a line."""
    cut = ascii(text[:_LONGEST_QUOTE])
    return f"{cut[:-1]}…{cut[-1]}" if len(text) > _LONGEST_QUOTE else cut


def counted(vgpus: Iterable[tuple[str, int]]) -> str:
    """Profiles with their counts."""
    return ", ".join(f"{count} x {name or 'an unknown profile'}" for name, count in vgpus) or (
        "nothing"
    )
