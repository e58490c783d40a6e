"""Parts of sentences that more than one message is made of."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST_QUOTE = 64
_LONGEST_NAME = 253
"""Of an object of Kubernetes."""
_FEW = 8


def listed(names: Iterable[str]) -> str:
    """The names, or that there is none."""
    return ", ".join(map(line, names)) or "none"


def line(text: str) -> str:
    """What others wrote, on one line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def few(names: Iterable[str], separator: str = ", ") -> str:
    """The first names, and how many more there are; or that there is none."""
    found = list(names)
    more = len(found) - _FEW
    first = separator.join(map(line, found[:_FEW])) or "none"
    return first + (f" and {more} more" if more > 0 else "")


def quoted(text: str) -> str:
    """What somebody wrote, however odd and long, as a part of a line."""
    cut = ascii(text[:_LONGEST_QUOTE])
    return f"{cut[:-1]}…{cut[-1]}" if len(text) > _LONGEST_QUOTE else cut


def shown(text: str) -> str:
    """The same as it stands, if it can be a name."""
    is_plain = text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_NAME
    return text if is_plain else quoted(text)


def counted(vgpus: Iterable[tuple[str, int]]) -> str:
    """Profiles with their counts."""
    texts = (f"{count} x {line(name) or 'an unknown profile'}" for name, count in vgpus)
    return ", ".join(texts) or "nothing"
