"""Decides at every run where a driver's program runs: in the driver's pod, or on the node.

The pod comes first, because where there is one the node itself has no driver. Nothing is kept
between runs, so a pod that comes, goes or is replaced is noticed by the very next one. The node is
turned to only when the pod's executor says that nothing was started; a program whose outcome is
unknown is never started a second time somewhere else. What belongs to the node's own system, such
as loading its kernel's modules, always runs there.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from laneway.core.programs import DRIVER_PROGRAMS
from laneway.host.port import Completed, Executor

_NOTHING_STARTED = {errno.ENOENT, errno.EACCES, errno.EHOSTUNREACH}


class ChosenExecutor:
    """`Executor` in the driver's pod where one is usable, else on the node."""

    def __init__(self, pod: Executor, local: Executor) -> None:
        self._pod = pod
        self._local = local

    async def has(self, program: str) -> bool:
        if program in DRIVER_PROGRAMS and await self._pod.has(program):
            return True
        return await self._local.has(program)

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        if argv and argv[0] in DRIVER_PROGRAMS:
            try:
                return await self._pod.run(argv, seconds)
            except OSError as error:
                if error.errno not in _NOTHING_STARTED or not await self._local.has(argv[0]):
                    raise
        return await self._local.run(argv, seconds)
