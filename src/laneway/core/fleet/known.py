"""What a change names must be in the fleet; otherwise the question is refused with what is near."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.phrases import closest, few, line


class ChangeError(ValueError):
    """A change that is not possible on this fleet; says why."""


def known(name: str, names: Iterable[str], what: str) -> None:
    """Nothing, where it is there. Raises ChangeError.

    `what`: what it is, in words.
    """
    there = list(names)
    if name not in there:
        meant = closest(name, there)
        hint = f". Did you mean {meant[0]}?" if meant else f". There are: {few(there)}"
        raise ChangeError(f"the fleet has no {what} {line(name[:80])}{hint}")
