"""Asking the agent of a node what it would do with a GPU, before a command stores a change."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from laneway.changes import trial
from laneway.changes.errors import TooLateError
from laneway.changes.trial import Trial
from laneway.cli import connection, gpu_changes, interrupts, progress
from laneway.cli.errors import Failure, one_line
from laneway.kube.client import Client
from laneway.views.gpus import Gpu
from laneway.views.profiles import room

_AT_ONCE = 30
"""Seconds for the answer where the command does not wait until the change is applied."""


def patience(seconds: int, *, wait: bool) -> int:
    """How long to wait for the answer, where `seconds` is how long to wait in all."""
    return seconds if wait else min(seconds, _AT_ONCE)


async def agreed(
    client: Client, gpu: Gpu, spec: dict[str, Any], *, seconds: int, dry_run: bool, fits: bool
) -> Trial:
    """What the agent would do for a layout of this spec. Raises Failure with why it would not.

    `dry_run`: whether nothing is to be stored afterwards either; `fits`: whether it matters what
    else would fit.
    """
    if dry_run:
        click.echo(one_line(f"Asking the agent of {gpu.node} what it would do."), err=True)
    else:
        progress.tell(0.0, f"asking the agent of {gpu.node} whether it is possible")
    try:
        found = await trial.ask(
            client, gpu, spec, seconds=seconds, listener=progress.Printer(quiet=True)
        )
    except asyncio.CancelledError:
        interrupts.say("; nothing was changed")
        raise
    except TooLateError as error:
        advice = "" if dry_run else ". To store the change without an answer, add --when-possible"
        late = connection.unmade(error).message
        raise Failure(f"nothing was changed: {late}{advice}") from None
    if not found.refusals:
        return found
    [refusal] = found.refusals
    reasons = told(refusal, advise=found.passing and not dry_run)
    if fits and (now := room(found.fits)):
        reasons.insert(1, f"Room now: {now}.")
    raise gpu_changes.refused(reasons, dry_run=dry_run)


def told(refusal: str, *, advise: bool) -> list[str]:
    """A refusal, and how to ask a command for the change all the same."""
    if not advise:
        return [refusal]
    advice = "To store it and have it applied once it is possible, add --when-possible."
    return [refusal, advice]
