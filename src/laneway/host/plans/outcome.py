"""What becomes of plans and of their steps, as it is reported to their callers."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from laneway.core.plan import Step
from laneway.core.refusals import DeviceDisappeared, Refusal, WriteFailed
from laneway.host.plans.files import StateError

Phase = Literal["doing", "done", "undoing", "undone", "failed"]


class Progress(NamedTuple):
    """How far a plan is, reported before and after each of its steps."""

    step: Step
    number: int
    """From 1."""
    total: int
    phase: Phase
    note: str = ""
    """What the user must know of a step that is done all the same."""


Report = Callable[[Progress], None]


def ignore(_progress: Progress) -> None:
    """Without effect."""


class StepError(Exception):
    """A plan did not complete; `refusal` says which step failed and why."""

    def __init__(self, refusal: Refusal, *, undone: bool) -> None:
        super().__init__(refusal.words)
        self.refusal = refusal
        self.undone = undone
        """Whether steps had been done, and were taken back: trying again disturbs what runs."""

    @property
    def left_over(self) -> tuple[str, ...]:
        """Steps that could not be undone."""
        match self.refusal:
            case WriteFailed(left_over=left) | DeviceDisappeared(left_over=left):
                return left
        return ()


class StepNotDone(Exception):  # noqa: N818 - never leaves this package
    """A step is not done. `refusal`: the reason as such, where there is more to it than words."""

    def __init__(
        self,
        error: str,
        refusal: Refusal | None = None,
        *,
        dirty: bool = False,
        in_kernel: bool = False,
    ) -> None:
        super().__init__(error)
        self.error = error
        self.refusal = refusal
        self.dirty = dirty
        """Whether the step left hardware neither as before nor as after."""
        self.in_kernel = in_kernel
        """Whether the write of another process still waits in the kernel for a user."""


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """What the system refuses in the block as the failure of a step."""
    try:
        yield
    except OSError as error:
        raise StepNotDone(describe_error(error)) from error
    except StateError as error:
        raise StepNotDone(str(error)) from error


def describe_error(error: OSError) -> str:
    """What failed, in the words and by the name that the kernel has for it."""
    name = errno.errorcode.get(error.errno or 0, "")
    text = error.strerror or os.strerror(error.errno or errno.EIO)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{text} ({name})" if name else f"{where}{text}"
