"""What a change names must be in the fleet; otherwise the question is refused with what is near."""

from __future__ import annotations

from collections.abc import Collection

from laneway.core.phrases import closest, few, line


class ChangeError(ValueError):
    """A change that is not possible on this fleet; says why."""


def known(name: str, names: Collection[str], what: str) -> None:
    """Nothing, where it is there. Raises ChangeError.

    `names`: a set or a map, for there may be many of both; `what`: what they are, in words.
    """
    if name not in names:
        meant = closest(name, names)
        hint = f". Did you mean {meant[0]}?" if meant else f". There are: {few(names)}"
        raise ChangeError(f"the fleet has no {what} {line(name[:80])}{hint}")
