"""What goes wrong, as Terraform shows it: a summary, the words of Laneway, and the attribute.

Nothing leaves the provider as an exception: Terraform would print it as a defect of the plugin.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from laneway.changes.answered import denial
from laneway.changes.errors import (
    ChangeError,
    OvertakenError,
    RefusedError,
    TooLateError,
    UnfinishedError,
)
from laneway.cli.errors import Failure
from laneway.kube.errors import (
    ConfigError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)

Path = Sequence[str | tuple[str | int]]
"""To an attribute: `["vgpus", ("A2-4Q",)]` is `vgpus["A2-4Q"]`."""

REFUSED = "Refused"
ASK = "Ask an administrator for a role that allows it."
_LONGER = "see the attribute timeout"


class ProblemError(Exception):
    """Something that a user has to know."""

    def __init__(
        self, summary: str, detail: str = "", path: Path = (), *, stops: bool = True
    ) -> None:
        """`stops`: whether Terraform goes no further."""
        super().__init__(f"{summary}: {detail}" if detail else summary)
        self.summary = summary
        self.detail = _sentence(detail)
        self.path = path
        self.stops = stops


def _sentence(text: str) -> str:
    """Messages of commands begin small and end with no full stop, or with a command."""
    return text[:1].upper() + text[1:]


def notice(summary: str, detail: str, path: Path = ()) -> ProblemError:
    """A problem that stops nothing."""
    return ProblemError(summary, detail, path, stops=False)


def incomplete(why: str) -> ProblemError:
    """The notice of what could not be read, and of what follows from that."""
    return notice("Not everything can be read", why)


def refused(words: str, path: Path = ()) -> ProblemError:
    """The problem of a refusal, which says itself what helps."""
    return ProblemError(REFUSED, words, path)


def problems_of(error: Exception, path: Path = ()) -> Iterator[ProblemError]:
    """What an exception says. `path`: the attribute that a refusal is about."""
    match error:
        case ProblemError():
            yield error
        case RefusedError():
            yield from (refused(words, path) for words in error.reasons)
        case TooLateError():
            yield ProblemError("Not finished", error.hinting(_LONGER), path)
        case UnfinishedError(why=TooLateError() as late, further=further):
            yield ProblemError("Not finished", f"{late.hinting(_LONGER)}. {further}", path)
        case UnfinishedError():
            yield ProblemError("Not finished", str(error), path)
        case OvertakenError():
            yield ProblemError("Changed meanwhile", f"{error}. Run terraform apply again.", path)
        case ChangeError():
            yield ProblemError(REFUSED, str(error), path)
        case Failure():
            yield ProblemError("Not possible", error.message, path)
        case KubeError():
            yield _of_cluster(error, path)
        case _:
            # Its text may hold anything, so only its place is told.
            where = traceback.extract_tb(error.__traceback__)[-1]
            yield ProblemError(
                "Defect of the provider",
                f"{type(error).__name__} in {where.name}, line {where.lineno} of "
                f"{where.filename.rpartition('/')[2]}. Please report this.",
            )


def _of_cluster(error: KubeError, path: Path) -> ProblemError:
    match error:
        case ConfigError():
            return ProblemError("The cluster is not configured", str(error))
        case UnauthorizedError():
            return ProblemError(
                "Not logged in", f"The API server does not accept the credentials: {error}."
            )
        case ForbiddenError() if words := denial(error):
            return refused(words, path)
        case ForbiddenError():
            return ProblemError(
                "Not allowed",
                f"The API server does not allow you to do this: {error}. {ASK}",
            )
        case UnreachableError():
            return ProblemError(
                "The cluster cannot be reached",
                f"{error}. Check that the API server runs, and that the provider's kubeconfig and "
                "context name the right one.",
            )
        case InvalidError() if words := denial(error):
            return refused(words, path)
        case NotFoundError():
            return ProblemError("Not found", str(error), path)
        case _:
            return ProblemError("The API server refuses", str(error), path)


class Told(contextlib.AbstractContextManager[None]):
    """Adds what goes wrong in the block to what Terraform shows, and goes on after it.

    mypy takes a generator for one that lets exceptions through, and what follows for unreachable.
    """

    def __init__(self, diagnostics: Any, path: Path = ()) -> None:
        self._diagnostics = diagnostics
        self._path = path

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, Exception):
            return False
        for problem in problems_of(error, self._path):
            add(self._diagnostics, problem)
        return True


def add(diagnostics: Any, problem: ProblemError) -> None:
    """Have Terraform show a problem."""
    tell = diagnostics.add_error if problem.stops else diagnostics.add_warning
    tell(problem.summary, problem.detail, path=list(problem.path) or None)
