"""What goes on while a command changes something, as it is printed.

Progress is printed as it changes, each line with the seconds since the change was written.
"""

from __future__ import annotations

import time

import click

from laneway.changes.errors import ChangeError, OvertakenError, TooLateError, UnfinishedError
from laneway.changes.listening import Listener
from laneway.changes.trial import passing, refusal_words
from laneway.cli import interrupts
from laneway.cli.errors import Failure, Unfinished, one_line
from laneway.views.answers import Answer

_LONGER = "see --timeout"


class Printer(Listener):
    """Prints what goes on; owns when the wait began."""

    def __init__(self, *, quiet: bool = False, advise: bool = False) -> None:
        """`quiet`: no progress. `advise`: whether `--when-possible` would help after a refusal."""
        self._quiet = quiet
        self._advise = advise
        self._began = time.monotonic()
        self._told = ""

    def progress(self, words: str) -> None:
        if words != self._told and not self._quiet:
            tell(time.monotonic() - self._began, words)
        self._told = words

    def warning(self, words: str) -> None:
        click.echo(one_line(f"laneway: warning: {words}"), err=True)

    def refused(self, answer: Answer) -> None:
        for words in told(refusal_words(answer), advise=self._advise and passing(answer)):
            click.echo(one_line(words), err=True)

    def interrupted(self, words: str) -> None:
        interrupts.say(f". {words}")


def tell(seconds: float, words: str) -> None:
    """Print what goes on, so many seconds after the wait began."""
    click.echo(f"{seconds:6.1f} s  {one_line(words)}")


def told(refusal: str, *, advise: bool) -> list[str]:
    """A refusal, and how to ask a command for the change all the same."""
    if not advise:
        return [refusal]
    advice = "To store it and have it applied once it is possible, add --when-possible."
    return [refusal, advice]


def failure(error: ChangeError) -> Failure:
    """How a command ends after it, with the options that help."""
    match error:
        case TooLateError():
            return Failure(error.hinting(_LONGER))
        case UnfinishedError(why=TooLateError() as late, further=further):
            return Unfinished(f"{late.hinting(_LONGER)}. {further}")
        case UnfinishedError():
            return Unfinished(str(error))
        case OvertakenError():
            return Failure(f"{error}; run the command again")
        case _:
            return Failure(str(error))
