"""How far the nodes of a cluster are prepared, as commands and pages show it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.api import HostPreparation, HostRequirement
from laneway.controllers.preparation.settings import digest
from laneway.controllers.rollout.observing import rollout_of
from laneway.core import keys
from laneway.core.rollout.node import Stage

NOT_ANSWERED = "The agent of the node has not answered yet."


class Prepared(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One node."""

    node: str
    stage: str
    """Ready, Planned, Staged, RebootPending, Draining, Rebooting, Verifying or Failed; empty while
    the agent has not answered."""
    message: str
    since: str = ""
    """When the stage of the roll-out began."""
    agent_stage: str = ""
    """What the agent alone says: Ready, Planned, Staged or Failed."""
    policies: Sequence[str] = ()
    boot_loader: str = ""
    boot: str = ""
    """The boot that the node is in."""
    requirements: Sequence[HostRequirement] = ()
    steps: Sequence[str] = ()
    """What is to be written."""
    approved: bool = False
    """An administrator has allowed the reboot."""


def prepared(found: HostPreparation) -> Prepared:
    """What is to be said of a node."""
    status, rollout = found.status, rollout_of(found.spec.rollout)
    current = status.settings == digest(found.spec)
    agent_stage = status.stage if current else ""
    message = rollout.message or (status.message if current else NOT_ANSWERED)
    allowed = found.metadata.annotations.get(keys.ANNOTATION_REBOOT, "")
    return Prepared(
        node=found.metadata.name,
        stage=rollout.stage.value or agent_stage,
        message=message,
        agent_stage=agent_stage,
        since=found.spec.rollout.since,
        policies=tuple(found.spec.policies),
        boot_loader=status.boot_loader,
        boot=status.boot_id,
        requirements=tuple(status.requirements) if current else (),
        steps=tuple(status.steps) if current else (),
        approved=bool(allowed) and allowed == status.boot_id,
    )


def can_be_approved(one: Prepared) -> bool:
    """Whether the node would reboot sooner if an administrator allowed it."""
    waits = one.stage in (Stage.REBOOT_PENDING, Stage.STAGED, Stage.FAILED)
    # Where the agent has failed there is nothing that the next boot would bring.
    return waits and one.agent_stage == Stage.STAGED and bool(one.boot) and not one.approved
