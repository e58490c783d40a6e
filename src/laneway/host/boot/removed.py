"""Which words Laneway removed from the kernel command line in this boot.

The running kernel still has them, and nothing else tells that they were Laneway's: once they are
out of the files, they look like what an administrator typed at the boot menu.
"""

from __future__ import annotations

import os

import msgspec

from laneway.core.plan import Plan, SetBootArguments
from laneway.host.plans import files
from laneway.host.plans.state import StateFolder


class _Removed(msgspec.Struct, frozen=True):
    """The file; of another boot it says nothing any more."""

    boot: str = ""
    words: tuple[str, ...] = ()


def read(state: StateFolder, boot: str) -> tuple[str, ...]:
    """The words that were removed in a boot."""
    found = files.salvaged(_path(state), _Removed, _Removed())
    return found.words if found.boot == boot else ()


def note(state: StateFolder, boot: str, plan: Plan) -> None:
    """Remember what a plan is about to remove. Raises OSError."""
    removed = [
        word
        for step in plan.steps
        if isinstance(step, SetBootArguments)
        for word in step.arguments_before
        if word not in step.arguments
    ]
    known = read(state, boot)
    words = tuple(dict.fromkeys((*known, *removed)))
    if words != known:
        files.replace(_path(state), msgspec.json.encode(_Removed(boot, words)) + b"\n")


def _path(state: StateFolder) -> str:
    return os.path.join(state.path, "removed-arguments.json")
