"""The journal of desired states that follow their cards to other addresses.

It is written before the first object is, shrinks as cards are done, and is removed after the last.
What it says can be done again from its beginning. Like the journals of plans it lies in the node's
state folder; unlike them it outlives a reboot, for it speaks of objects.
"""

from __future__ import annotations

import os

import msgspec

from laneway.core.renumbering import Renumbering
from laneway.host.plans import files
from laneway.host.plans.state import StateFolder


def read(state: StateFolder) -> Renumbering | None:
    """What was begun, None when nothing was. Raises StateError when that is not known."""
    return files.read(_path(state), Renumbering)


def begin(state: StateFolder, renumbering: Renumbering) -> None:
    """Note what is about to be written, or what is left of it. Raises OSError."""
    files.replace(_path(state), msgspec.json.encode(renumbering) + b"\n")


def end(state: StateFolder) -> None:
    """Everything is written. Raises OSError."""
    os.unlink(_path(state))
    files.sync_folder(state.path)


def _path(state: StateFolder) -> str:
    return os.path.join(state.path, "renumbering.json")
