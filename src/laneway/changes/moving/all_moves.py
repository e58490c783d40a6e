"""All moves, one after the other, each judged by the cluster as it is when its turn comes.

The first that does not work out ends it: that one is undone, those before it stay, those after it
are not begun. A cancellation does the same. Whatever ends it, the result says what was done, what
was not, and how each VM is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from laneway.changes.answered import words_of
from laneway.changes.errors import ChangeError
from laneway.changes.moving import one_move, vgpus
from laneway.changes.moving.before import unreadable
from laneway.changes.moving.undoing import Undo
from laneway.changes.moving.work import Seen, Work
from laneway.core.fleet import moves_again as again
from laneway.core.fleet.movable import unused
from laneway.core.fleet.moves import Move, Moves, Outcome, least_moves
from laneway.kube.errors import KubeError


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the moves."""

    done: tuple[Move, ...]
    why: str = ""
    """What ended them early; empty: nothing, and the wanted vGPUs fit."""
    failed: Move | None = None
    """The move during which that was."""
    kept: tuple[str, ...] = ()
    """What of it could not be undone."""
    left: tuple[Move, ...] = ()
    """Those that were not begun."""
    states: tuple[str, ...] = ()
    """How each VM is, where they ended early."""
    interrupted: bool = False


class _EndedError(Exception):
    """The moves end here."""

    def __init__(self, why: str, failed: Move | None = None, *kept: str) -> None:
        super().__init__(why)
        self.failed = failed
        self.kept = kept


async def carry_out(work: Work, found: Moves, wanted: Mapping[str, int]) -> Result:
    """Carry out the moves that were found, and verify that the wanted vGPUs fit then.

    `wanted`: by profile in the driver's name. Nothing is done but what `found` says.
    """
    run = _Run(work, found, wanted)
    try:
        await run.everything()
    except asyncio.CancelledError:
        return await run.result("interrupted", interrupted=True)
    except _EndedError as ended:
        return await run.result(str(ended), ended.failed, ended.kept)
    except (TimeoutError, ChangeError, KubeError) as error:
        return await run.result(run.words(error))
    return Result(done=tuple(run.done))


class _Run:
    """How far it is."""

    def __init__(self, work: Work, found: Moves, wanted: Mapping[str, int]) -> None:
        self._work = work
        self._found = found
        self._wanted = wanted
        self.done: list[Move] = []
        self._left = list(found.moves)
        self._failed: Move | None = None
        self._kept: tuple[str, ...] = ()

    async def everything(self) -> None:
        while self._left:
            seen = await self._seen()
            if self.done and self._fits(seen).outcome is Outcome.FOUND:
                break  # There is room already, so no further VM has to move.
            if changes := again.changed(seen.fleet, self._left, self._found.places):
                raise _EndedError(f"the cluster has changed: {'; '.join(changes)}")
            arrivals = [(leg.profile, leg.target) for leg in self._left[0].legs]
            clear = again.to_clear(seen.fleet, arrivals)
            self._agreed(clear)
            await self._one(self._left.pop(0), clear)
        await self._verify()

    async def _seen(self) -> Seen:
        seen = await self._work.look()
        if why := unreadable(seen):
            raise _EndedError(why)
        return seen

    async def _one(self, move: Move, clear: tuple[str, ...]) -> None:
        work, undo = self._work, Undo()
        work.listener.begun(move)
        try:
            async with asyncio.timeout(work.seconds):
                new = await one_move.carry_out(work, move, clear, undo)
        except (TimeoutError, ChangeError, KubeError) as error:
            kept = await undo.run(work.listener.progress, work.seconds)
            raise _EndedError(self.words(error), move, *kept) from None
        except BaseException:  # a cancellation, or a mistake of ours: nothing half-done stays
            self._failed = move
            self._kept = await undo.run(work.listener.progress, work.seconds)
            raise
        self.done.append(move)
        work.listener.moved(move)
        try:
            async with asyncio.timeout(work.seconds):
                await one_move.clean_up(work, move, new)
        except (TimeoutError, ChangeError, KubeError) as error:
            names = ", ".join(leg.vgpu for leg in move.legs)
            raise _EndedError(
                f"{move.vm} is moved, and what it left is not removed ({names}): "
                f"{self.words(error)}"
            ) from None

    def words(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"not finished within {self._work.seconds} s"
        return words_of(error)

    def _agreed(self, clear: Sequence[str]) -> None:
        """That only those vGPUs are removed that the proposal names."""
        if others := [name for name in clear if name not in self._found.in_the_way]:
            raise _EndedError(
                f"the cluster has changed: VGPUDevice {', '.join(others)} is in the way now"
            )

    def _fits(self, seen: Seen) -> Moves:
        return least_moves(seen.fleet, self._wanted, limit=0)

    async def _verify(self) -> None:
        """Remove what else is in the way, and see that the wanted vGPUs fit in fact."""
        final = self._fits(await self._seen())
        if final.outcome is Outcome.FOUND:
            self._agreed(final.in_the_way)
            for name in final.in_the_way:
                async with asyncio.timeout(self._work.seconds):
                    await vgpus.remove(self._work, name)
            final = self._fits(await self._seen())
        if final.outcome is not Outcome.FOUND or final.in_the_way:
            raise _EndedError(
                "all moves are done, and there is still no room: another program took it"
            )

    async def result(
        self,
        why: str,
        failed: Move | None = None,
        kept: tuple[str, ...] = (),
        *,
        interrupted: bool = False,
    ) -> Result:
        """What came of it, with how each VM is by the cluster."""
        failed = failed or self._failed
        kept = kept or self._kept
        try:
            seen = await self._work.look()
            states = tuple(again.state_of(seen.fleet, move.vm) for move in self._found.moves)
            targets = {leg.target for leg in failed.legs} if failed is not None else set()
            kept += _going(seen, targets)
            states += _idle(seen, targets)
        except (ChangeError, KubeError) as error:
            states = (f"how the VMs are cannot be read: {words_of(error)}",)
        return Result(
            done=tuple(self.done),
            why=why,
            failed=failed,
            kept=kept,
            left=tuple(self._left),
            states=states,
            interrupted=interrupted,
        )


def _going(seen: Seen, targets: Collection[str]) -> tuple[str, ...]:
    """The vGPUs of these GPUs that are there although their removal is requested."""
    gpus = (gpu for name, gpu in seen.gpus.items() if name in targets)
    return tuple(words for gpu in gpus for words in vgpus.going(gpu).values())


def _idle(seen: Seen, targets: Collection[str]) -> tuple[str, ...]:
    """The vGPUs of these GPUs that stay, and that no VM has: an earlier run may have left them."""
    return tuple(
        f"VGPUDevice {one.name} is enabled, and no VM has it"
        for gpu in seen.fleet.gpus
        if gpu.name in targets
        for one in unused(gpu)
        if one.name not in vgpus.going(seen.gpu(gpu.name))
    )
