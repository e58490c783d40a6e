"""Whether the driver answers, which is what ready means.

`nvidia-smi` talks to the driver in the kernel. Where every GPU is passed through, it finds none and
ends with 6, and the driver has answered all the same.
"""

from __future__ import annotations

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.state import State
from laneway.core.programs import NVIDIA_SMI
from laneway.host.executors.bounded import run_bounded
from laneway.host.plans.files import StateError
from laneway.toolkit.record import read_state

_ANSWERS = (0, 6)
SECONDS = 60.0


async def ask_driver(seconds: float = SECONDS) -> None:
    """Raises ToolkitError unless the driver answers."""
    try:
        ended = await run_bounded([NVIDIA_SMI, "-L"], NVIDIA_SMI, seconds)
    except OSError as error:
        raise ToolkitError(failure.silent(error.strerror or str(error))) from None
    if ended.status not in _ANSWERS:
        raise ToolkitError(failure.silent(" ".join(ended.output.split())))


async def why_not_ready(record: str, seconds: float) -> str:
    """Why VMs cannot use the driver of this container; empty when they can."""
    try:
        state = read_state(record)
    except StateError as error:
        return str(error)
    if state is None:
        return "no driver toolkit has run on this node"
    if state.serving is None:
        return describe_state(state)
    try:
        await ask_driver(seconds)
    except ToolkitError as error:
        return error.failure.message
    return ""


def describe_state(state: State) -> str:
    """One line about a node's driver."""
    version = state.wanted.version if state.wanted else "none"
    text = f"driver {version}: {state.stage}"
    return f"{text}: {state.message}" if state.message else text
