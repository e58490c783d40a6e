"""Programs as Laneway runs them: whatever fails is an OSError, in the program's own words."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from laneway.host.port import Executor

_MAX_SAID = 500
"""Of a program's output in an error; the end of it, where the reason is."""


class Ended(NamedTuple):
    """How a program ended."""

    program: str
    status: int
    output: str

    def error(self, number: int = errno.EIO) -> OSError:
        """Its failure in words."""
        said = " ".join(self.output.split())
        said = said if len(said) <= _MAX_SAID else f"… {said[-_MAX_SAID:]}"
        return OSError(
            number, f"{self.program} ended with status {self.status}: {said or 'no output'}"
        )


async def run(executor: Executor, argv: Sequence[str], seconds: float) -> Ended:
    """Run a program and wait for it. Raises OSError when it is missing or takes too long."""
    program = posixpath.basename(argv[0])
    try:
        completed = await executor.run(argv, seconds)
    except TimeoutError as error:
        # An executor knows whether the program was stopped; a simulated one just runs out of time.
        reported = error.strerror or f"{program} did not end within {seconds:g} s"
        raise OSError(errno.ETIMEDOUT, reported) from None
    return Ended(program, completed.status, completed.output)
