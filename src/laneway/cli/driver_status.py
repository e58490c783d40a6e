"""`laneway driver-toolkit ready` and `status`: what a node's driver does, without running anything.

The first is a probe that runs every few seconds, so neither imports what installs the driver.
"""

from __future__ import annotations

import asyncio

from laneway.cli.errors import Failure
from laneway.core.driver_toolkit.state import Driver, State
from laneway.host.plans.files import StateError
from laneway.toolkit.answering import why_not_ready
from laneway.toolkit.places import Places
from laneway.toolkit.record import read_state


def check_ready(state_dir: str, seconds: float) -> None:
    """Raises Failure unless VMs can use the driver."""
    if why := asyncio.run(why_not_ready(Places(state=state_dir).record, seconds)):
        raise Failure(why)


def show_status(state_dir: str, output: str | None) -> None:
    """Print the node's record. Raises Failure where there is none."""
    from laneway.cli.output import View, show  # noqa: PLC0415 - the probe does without

    path = Places(state=state_dir).record
    try:
        state = read_state(path)
    except StateError as error:
        raise Failure(str(error)) from None
    if state is None:
        raise Failure(f"no driver toolkit has run on this node: {path} does not exist")
    show(View(document=state, names=(), text=lambda _wide: _text(state)), output)


def _text(state: State) -> str:
    rows = {
        "Stage": f"{state.stage} since {state.since}",
        "Requested": _driver(state.wanted),
        "In service": _driver(state.serving),
        "Previous": _driver(state.previous),
        "Kernel": state.kernel,
        "Reason": state.reason,
        "Message": state.message,
    }
    return "".join(f"{name + ':':<12}{text}\n" for name, text in rows.items() if text)


def _driver(driver: Driver | None) -> str:
    return f"{driver.version} (sha256 {driver.sha256[:12]})" if driver else "none"
