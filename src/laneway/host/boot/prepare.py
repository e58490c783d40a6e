"""Brings a host to what is asked of it, up to the reboot; `Wanted()` takes everything back."""

from __future__ import annotations

from laneway.core.preparation.decide import Preparation, decide
from laneway.core.preparation.wanted import Wanted
from laneway.core.requested import UNKNOWN, Origin
from laneway.host.boot.facts import read_facts
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, execute
from laneway.host.plans.outcome import Report, ignore


async def prepare(
    hardware: Hardware,
    wanted: Wanted,
    *,
    actor: str,
    reason: str,
    origin: Origin = UNKNOWN,
    progress: Report = ignore,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> Preparation:
    """Carry out what is missing and say how far the host is then. Raises StepError.

    Refused: nothing is changed, and the refusals say why.
    """
    preparation = decide(wanted, await read_facts(hardware, wanted))
    if not preparation.plan.steps:
        return preparation
    await execute(
        hardware,
        preparation.plan,
        actor=actor,
        reason=reason,
        origin=origin,
        progress=progress,
        limits=limits,
    )
    return decide(wanted, await read_facts(hardware, wanted))
