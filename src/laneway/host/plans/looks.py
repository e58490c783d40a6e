"""Looks at hardware for a step that may be half way, or whose effect comes after its write.

Hardware announces some of it and nothing else; a few looks cost less than to listen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container

from laneway.core.plan import Step
from laneway.host.hardware import Hardware
from laneway.host.plans.operations import operation_of
from laneway.host.plans.operations.operation import Limits, Seen, State

STEADY = frozenset({State.BEFORE, State.AFTER, State.EITHER})
"""Not half way."""
DONE = frozenset({State.AFTER, State.EITHER})


async def look(
    hardware: Hardware, step: Step, limits: Limits, states: Container[State], seconds: float
) -> Seen:
    """What hardware shows once it is in one of the states, or was in none for so long."""
    end = asyncio.get_running_loop().time() + seconds
    while (seen := await operation_of(step).state(hardware, step)).state not in states:
        if asyncio.get_running_loop().time() >= end:
            break
        await asyncio.sleep(limits.poll_seconds)
    return seen
