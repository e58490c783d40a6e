"""How the GPU instances of a GPU are, in one word and with the reason."""

from __future__ import annotations

from typing import Literal, NamedTuple

from laneway.api import MIG_OUT_OF_SYNC, MigConfiguration
from laneway.views.answers import answer_of

Kind = Literal["outofsync", "away", "progress", "enabled", "disabled"]


class State(NamedTuple):
    """How a MigConfiguration is."""

    kind: Kind
    why: str = ""
    """What differs, what is being done, or why nothing is known; whole sentences."""


def state_of(mig: MigConfiguration, stale: str = "") -> State:
    """The state of a MigConfiguration. `stale`: why it may be out of date."""
    if stale:
        return State("away", f"{stale[0].upper()}{stale[1:]}.")
    answer = answer_of(mig.status, mig.metadata.generation)
    if answer.kind == "none":
        waits = f"The agent of {mig.spec.node_name} has not answered to this desired state yet."
        return State("progress", waits)
    if answer.kind == "working":
        return State("progress", answer.message or answer.reason)
    if answer.kind == "refused" or mig.status.status == MIG_OUT_OF_SYNC:
        return State("outofsync", mig.status.message or answer.message or answer.reason)
    return State("enabled" if mig.spec.enabled else "disabled")
