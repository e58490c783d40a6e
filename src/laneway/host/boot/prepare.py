"""Brings a host to what is asked of it, up to the reboot; `Wanted()` takes everything back."""

from __future__ import annotations

from laneway.core.preparation.decide import Preparation, decide
from laneway.core.preparation.wanted import Wanted
from laneway.core.refusals import WriteFailed
from laneway.core.requested import UNKNOWN, Origin
from laneway.host.boot import removed
from laneway.host.boot.facts import read_facts
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.plans.files import StateError
from laneway.host.plans.outcome import Report, describe_error, ignore
from laneway.host.plans.recover import recover
from laneway.host.plans.state import BusyError


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

    Plans that another process left interrupted are recovered first. With refusals nothing is
    changed.
    """
    try:
        with hardware.state.lock(actor):
            await recover(hardware, actor=actor, progress=progress, limits=limits)
            facts = await read_facts(hardware, wanted)
            preparation = decide(wanted, facts)
            if not preparation.plan.steps:
                return preparation
            removed.note(hardware.state, facts.boot_id, preparation.plan)
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
    except BusyError as error:
        raise StepError(error.refusal, undone=False) from error
    except (OSError, StateError) as error:
        words = describe_error(error) if isinstance(error, OSError) else str(error)
        raise StepError(WriteFailed("prepare the host", words), undone=False) from error
