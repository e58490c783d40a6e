"""The condition of a device node that says how the driver is that the driver toolkit installs.

Its agent writes it. The manager reads it before it goes on to the next node, and so does everything
that shows GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from laneway.api import Condition, ConditionStatus, find_condition
from laneway.core.driver_toolkit.standing import NO_TOOLKIT, PENDING, Standing

DRIVER = "Driver"

NONE = Condition(
    type=DRIVER,
    status="Unknown",
    reason=NO_TOOLKIT,
    message="No driver toolkit has run on the node.",
)
"""Once there is no toolkit any more."""


def driver_condition(found: Standing) -> Condition:
    """What the agent says."""
    status = {True: "True", False: "False", None: "Unknown"}[found.ready]
    return Condition(
        type=DRIVER,
        status=cast("ConditionStatus", status),
        reason=found.reason,
        message=found.message,
    )


def driver_of(conditions: Sequence[Condition]) -> Condition | None:
    """How the driver is, where a toolkit has run."""
    return find_condition(conditions, DRIVER)


def not_in_service(said: Condition | None) -> str:
    """Why the driver that was requested is not in service; empty where nothing is known."""
    if said is None or said.status != "False":
        return ""
    return f"{said.reason}: {said.message}"


def driver_failed(said: Condition | None) -> bool:
    """Whether a person has to do something, instead of waiting."""
    return bool(not_in_service(said)) and said is not None and said.reason not in PENDING
