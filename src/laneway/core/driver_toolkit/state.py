"""What the toolkit remembers of a node, which outlives containers and reboots.

`stage` is where the wanted driver stands; `serving` is the driver that VMs can use now, which is
the previous one after an upgrade that failed or while one waits. `loaded` belongs to one boot:
after another, nothing of ours is in the kernel.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

Stage = Literal[
    "Starting", "Downloading", "Installing", "Loading", "Ready", "Waiting", "Failed", "Stopped"
]


class Driver(msgspec.Struct, frozen=True):
    """One package of the driver."""

    version: str
    sha256: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The file `state.json`."""

    stage: Stage = "Starting"
    reason: str = ""
    message: str = ""
    wanted: Driver | None = None
    serving: Driver | None = None
    loaded: Driver | None = None
    """Whose modules were loaded completely."""
    boot: str = ""
    """The boot in which they were."""
    last: Driver | None = None
    """The last driver that answered."""
    previous: Driver | None = None
    """The one before it."""
    kernel: str = ""
    since: str = ""
    """When this stage began (RFC 3339)."""
    changed: str = ""
    """When this file was written."""


def began(state: State, wanted: Driver, boot: str, kernel: str) -> State:
    """A container starts: whatever the last one said of itself is over."""
    return State(
        wanted=wanted,
        loaded=state.loaded if state.boot == boot else None,
        boot=boot,
        last=state.last,
        previous=state.previous,
        kernel=kernel,
    )


def answered(state: State, driver: Driver) -> State:
    """A driver is in use, and the one before it is what to go back to."""
    if state.last == driver:
        return replace(state, serving=driver)
    return replace(state, serving=driver, last=driver, previous=state.last)


def fallback(state: State) -> Driver | None:
    """The driver to go back to when the wanted one cannot be used."""
    return next((one for one in (state.last, state.previous) if one and one != state.wanted), None)


def kept(state: State) -> set[str]:
    """The hashes of the packages that stay on the node."""
    return {one.sha256 for one in (state.wanted, state.last, state.previous) if one}
