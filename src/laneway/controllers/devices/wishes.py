"""The answer to a wish that an object may state but this release does not carry out."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from laneway.api import Status
from laneway.controllers.devices.family import ready
from laneway.core.refusals import NotYetSupported
from laneway.core.words import explain

S = TypeVar("S", bound=Status)


def answer(observed: S, *, asked: object, actual: object, wish: str, state: str) -> S:
    """The observed status, refusing in its Ready condition what was asked beyond it."""
    if asked == actual:
        return observed
    refusal = NotYetSupported(wish, state)
    condition = ready(refusal.reason, explain(refusal), status=False)
    return msgspec.structs.replace(observed, conditions=[condition])
