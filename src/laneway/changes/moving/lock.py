"""One `laneway plan moves --apply` at a time in a cluster: two would undo each other's moves.

The lock is a Lease, renewed while the moves last. One whose holder was killed ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator

from laneway.changes.errors import ChangeError
from laneway.changes.moving.work import Work
from laneway.kube.leader import Election, Timing

NAMESPACE = "default"
"""There is one in every cluster."""
NAME = "laneway-plan-moves"
_SILENT_SECONDS = 1.0
"""For so long a wait is not worth a line."""


@contextlib.asynccontextmanager
async def alone(work: Work) -> AsyncGenerator[None, None]:
    """Hold the lock. Raises ChangeError where another has it and renews it.

    The block is cancelled where the lock is lost.
    """
    timing = Timing()
    owner, held, over = asyncio.current_task(), asyncio.Event(), False

    async def hold() -> None:
        held.set()
        try:
            await asyncio.Event().wait()
        finally:
            if not over and owner is not None:
                work.listener.warning(f"the lease {NAMESPACE}/{NAME} is lost")
                owner.cancel()

    identity = f"laneway-plan-moves-{secrets.token_hex(4)}"
    election = Election(work.client, NAMESPACE, NAME, identity, timing=timing)
    holding = asyncio.create_task(election.run(hold))
    waiting = asyncio.get_running_loop().call_later(
        _SILENT_SECONDS,
        work.listener.progress,
        "waiting until no other laneway plan moves is at work",
    )
    try:
        try:
            # A holder that was killed is silent for as long as its lease lasts.
            async with asyncio.timeout(timing.lease_seconds + 2 * timing.retry_seconds):
                await held.wait()
        except TimeoutError:
            if election.holder:
                words = f"another laneway plan moves is at work ({election.holder})"
            else:
                words = f"the lease {NAMESPACE}/{NAME} cannot be taken"
            raise ChangeError(f"{words}; nothing was changed") from None
        finally:
            waiting.cancel()
        yield
    finally:
        over = True
        holding.cancel()
        await asyncio.wait({holding})
