"""How a node's driver is, judged by the toolkit's record and by what the kernel has.

The record outlives containers and boots, so it alone proves nothing: `Ready` counts only while the
very driver that it names is in the kernel, and of another boot it says nothing. A record that
cannot be read is not one that reports a failure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from laneway.core.driver_toolkit.state import State

INSTALLING = "DriverInstalling"
NOT_STARTED = "DriverNotStarted"
STOPPED = "DriverStopped"
READY = "DriverReady"
UNREADABLE = "DriverStateUnreadable"
NO_TOOLKIT = "NoDriverToolkit"

PENDING = frozenset({INSTALLING, NOT_STARTED, STOPPED})
"""Reasons of a driver that is on its way, or that a container has yet to begin with."""

_REASON = re.compile(r"[A-Z][A-Za-z]{0,63}")
_LONGEST = 1500
_WORKING = ("Starting", "Downloading", "Installing", "Loading")


class Standing(NamedTuple):
    """A node's driver, for people and for the manager."""

    reason: str
    message: str
    ready: bool | None = False
    """Whether VMs can use the driver that was requested; None where that is not known."""

    @property
    def failed(self) -> bool:
        """Whether a person has to do something about it."""
        return self.ready is False and self.reason not in PENDING


def unreadable(why: str) -> Standing:
    """Of a record that cannot be read."""
    return Standing(UNREADABLE, f"Laneway cannot read how the driver is: {why}", None)


def judge(state: State, boot: str, loaded: str) -> Standing:
    """`boot`: the present one. `loaded`: the version of the driver in the kernel, if one is."""
    if state.boot != boot:
        return _of_another_boot(loaded)
    version = state.wanted.version if state.wanted else "of an unknown version"
    if state.stage == "Ready":
        return _ready(state, loaded)
    if state.stage == "Stopped":
        return Standing(
            STOPPED,
            f"The driver pod of the node has ended, so driver {version} is not in service.",
        )
    serves = f" Driver {state.serving.version} serves meanwhile." if state.serving else ""
    if state.stage in _WORKING:
        doing = _short(state.message) or state.stage.lower()
        return Standing(INSTALLING, f"Driver {version} is not in service yet: {doing}.{serves}")
    message = _short(state.message) or "the record gives no cause"
    return Standing(
        state.reason if _REASON.fullmatch(state.reason) else "DriverFailed",
        f"Driver {version} is not in service: {message}.{serves}",
    )


def _of_another_boot(loaded: str) -> Standing:
    text = "The driver toolkit has not run since the node booted"
    if loaded:  # by another way, which is no failure of the toolkit's
        return Standing(NOT_STARTED, f"{text}; driver {loaded} is loaded.", None)
    return Standing(
        NOT_STARTED,
        f"{text}, and no driver is loaded. List its pods: kubectl get pods -A -o wide "
        "--selector app=nvidia-driver-daemonset",
    )


def _ready(state: State, loaded: str) -> Standing:
    said = state.serving.version if state.serving else ""
    if said and said == loaded:
        return Standing(READY, f"Driver {said} is in service.", True)
    found = f"driver {loaded} is" if loaded else "no driver is"
    return Standing(
        "DriverNotLoaded",
        f"The driver toolkit recorded driver {said or 'none'} as ready, but {found} in the "
        "kernel. Delete the driver pod of the node, which begins again.",
    )


def _short(text: str) -> str:
    return text.strip()[:_LONGEST].rstrip(". \n")
