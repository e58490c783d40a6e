"""How a command ends that stored a change: it is applied, goes on, or was refused.

A command that ends while the agent still works, by a signal or a time limit, says that the work
goes on, how to watch it and how to cancel it.
"""

from __future__ import annotations

import click

from laneway.changes.errors import ChangeError
from laneway.changes.trial import passing, refusal_words
from laneway.changes.writing import Change, Outcome, Waiting
from laneway.cli import target
from laneway.cli.asking import told
from laneway.cli.errors import Failure, one_line
from laneway.cli.progress import Printer
from laneway.kube.client import Client
from laneway.views.answers import Answer
from laneway.views.gpus import Gpu


class ChangePrinter(Printer):
    """Prints also why the agent refuses a change."""

    def __init__(self, change: Change, *, when_possible: bool) -> None:
        super().__init__()
        self._advise = change.changes and not when_possible

    def refused(self, answer: Answer) -> None:
        for words in told(refusal_words(answer), advise=self._advise and passing(answer)):
            click.echo(one_line(words), err=True)


def waiting(client: Client, gpu: Gpu, seconds: int, *, when_possible: bool) -> Waiting:
    """How a command waits: so many seconds, 0 for not at all."""

    async def look() -> Gpu:
        try:
            return await target.find(client, gpu.name)
        except Failure as error:
            raise ChangeError(error.message) from error

    return Waiting(seconds, when_possible, look)


def ended(change: Change, outcome: Outcome) -> Answer | None:
    """The agent's answer; None where it is still to come. Raises Failure after a refusal."""
    match outcome.state:
        case "stored":
            click.echo(one_line(f"Stored in {change.title}. {change.cancelling}"))
            return None
        case "later":
            words = "Not possible yet; the agent applies it once it is possible."
            click.echo(one_line(f"{words} {change.cancelling}"))
            return None
        case "unchanged":
            raise Failure(
                f"refused; {change.title} had this desired state before the command, and is "
                "unchanged"
            )
        case "refused":
            raise Failure(outcome.words)
        case "done":
            return outcome.answer
