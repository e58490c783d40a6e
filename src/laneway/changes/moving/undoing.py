"""What is undone, last first, where a move does not come to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from laneway.changes.answered import words_of
from laneway.changes.errors import ChangeError
from laneway.kube.errors import KubeError


class _Step(NamedTuple):
    words: str
    call: Callable[[], Awaitable[object]]


class Undo:
    """The steps of one move that can be undone."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def add(self, words: str, call: Callable[[], Awaitable[object]], *, last: bool = False) -> None:
        """Remember how to undo what is done now. `last`: after all others.

        `words`: what undoing does, `start default/a again`.
        """
        self._steps.insert(0 if last else len(self._steps), _Step(words, call))

    def forget(self) -> None:
        """The move is done: what was done stays."""
        self._steps.clear()

    async def run(self, tell: Callable[[str], None], seconds: float) -> tuple[str, ...]:
        """Undo all of it, each step within so many seconds; gives what could not be undone.

        A cancellation does not stop it half-way.
        """
        undoing = asyncio.create_task(self._run(tell, seconds))
        while not undoing.done():
            try:
                await asyncio.wait({undoing})
            except asyncio.CancelledError:
                tell("interrupted again; what was begun is undone first")
        return undoing.result()

    async def _run(self, tell: Callable[[str], None], seconds: float) -> tuple[str, ...]:
        failed = []
        while self._steps:
            step = self._steps.pop()
            tell(f"undoing: {step.words}")
            try:
                async with asyncio.timeout(seconds):
                    await step.call()
            except TimeoutError:
                failed.append(f"could not {step.words}: not finished within {seconds:.0f} s")
            except (ChangeError, KubeError) as error:
                failed.append(f"could not {step.words}: {words_of(error)}")
        return tuple(failed)
