"""The driver's programs as operations run them: a failure is an OSError in the program's words."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from laneway.host.hardware import Hardware

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


async def run(hardware: Hardware, argv: Sequence[str], seconds: float) -> Ended:
    """Run a program and wait for it. Raises OSError when it is missing or takes too long."""
    program = posixpath.basename(argv[0])
    try:
        completed = await hardware.executor.run(argv, seconds)
    except FileNotFoundError:
        raise OSError(errno.ENOENT, f"{program} is not installed") from None
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, f"{program} did not end within {seconds:g} s") from None
    return Ended(program, completed.status, completed.output)
