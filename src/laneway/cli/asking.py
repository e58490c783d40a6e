"""Asking the agent of a node what it would do with a GPU, before a change is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from laneway.api import LayoutGpu, VGPULayout
from laneway.cli import gpu_changes, interrupts, progress, trial
from laneway.cli.errors import one_line
from laneway.controllers.devices.layout import NOT_LATER
from laneway.core.layout.desired import USED
from laneway.core.refusals import GpuNotReady, HoldersUnknown
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.answers import Answer, entry_of, of_layout
from laneway.views.gpus import Gpu
from laneway.views.profiles import room

_PASSING = {kind.__name__ for kind in (*USED, GpuNotReady, HoldersUnknown)}
"""Reasons that may go away by themselves."""
_AT_ONCE = 30
"""Seconds for the answer where the command does not wait until the change is applied."""


def patience(seconds: int, *, wait: bool) -> int:
    """How long to wait for the answer, where `seconds` is how long to wait in all."""
    return seconds if wait else min(seconds, _AT_ONCE)


async def agreed(
    client: Client, gpu: Gpu, spec: dict[str, Any], *, seconds: int, dry_run: bool, fits: bool
) -> LayoutGpu:
    """What the agent would do for a layout of this spec. Raises Failure with why it would not.

    `dry_run`: whether nothing is to be stored afterwards either; `fits`: whether it matters what
    else would fit.
    """
    if dry_run:
        click.echo(one_line(f"Asking the agent of {gpu.node} what it would do."), err=True)
    else:
        progress.tell(0.0, f"asking the agent of {gpu.node} whether it is possible")
    try:
        async with trial.layout(client, spec) as made:
            name, generation = made.metadata.name, made.metadata.generation
            layout, answer = await progress.awaited(
                client,
                served(VGPULayout),
                name,
                lambda layout: of_layout(entry_of(layout, gpu.name, generation)),
                node=gpu.node,
                seconds=seconds,
                quiet=True,
            )
    except asyncio.CancelledError:
        interrupts.say("; nothing was changed")
        raise
    except progress.TooLate as error:
        advice = "" if dry_run else ". To store the change without an answer, add --when-possible"
        raise progress.TooLate(f"nothing was changed: {error}{advice}") from None
    entry = entry_of(layout, gpu.name, generation)
    if answer.kind != "refused" and entry is not None:
        return entry
    reasons = told(answer, advise=not dry_run)
    if fits and entry is not None and (now := room(entry.fits)):
        reasons.insert(1, f"Room now: {now}.")
    raise gpu_changes.refused(reasons, dry_run=dry_run)


def told(answer: Answer, *, advise: bool) -> list[str]:
    """A refusal, and how to ask a command for the change all the same.

    A layout's own advice is about its object, which the command leaves as it was.
    """
    words = [answer.words.removesuffix(NOT_LATER).rstrip(" ;")]
    if advise and answer.reason in _PASSING:
        words.append("To store it and have it applied once it is possible, add --when-possible.")
    return words
