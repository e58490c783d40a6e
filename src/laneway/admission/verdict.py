"""What rules say of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

from laneway.admission.request import Access, Request
from laneway.admission.world import World
from laneway.core.refusals import Refusal
from laneway.kube.resource import KubeObject, T

Granted = frozenset[Access]
"""Of the rights that a rule needs, those that the requester has."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed where nothing speaks against it."""

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is legal but unwise, in whole sentences; shown to the user, by kubectl too."""

    @property
    def allowed(self) -> bool:
        return not self.refusals

    def as_warnings(self) -> Verdict:
        """The same, with everything allowed."""
        return Verdict(warnings=(*(one.words for one in self.refusals), *self.warnings))


ALLOWED = Verdict()

Judge = Callable[[Request[T], World, Granted], Verdict]
"""Pure: the same for the same arguments, and never raises."""
Asks = Callable[[Request[T], World], Iterable[Access]]
"""Pure: which rights of the requester the judge wants to know. None where it does not matter."""


Knows = Callable[[Request[T], World], bool]
"""Pure: whether what the object refers to is known. One file may well hold both, and watches tell
of what was written a moment ago only a moment later."""


def everything(_request: Request[KubeObject], _world: World) -> bool:
    """It refers to nothing that would matter."""
    return True


def nothing(_request: Request[KubeObject], _world: World) -> Iterable[Access]:
    """No right matters."""
    return ()


@dataclass(frozen=True, slots=True)
class Rules(Generic[T]):
    """The rules of one kind."""

    judge: Judge[T]
    asks: Asks[T] = nothing
    knows: Knows[T] = everything
