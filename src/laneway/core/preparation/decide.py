"""From what is asked of a host and what it is like, to the steps that are missing."""

from __future__ import annotations

from typing import Literal

import msgspec

from laneway.core.plan import Plan
from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.requirements import Requirement
from laneway.core.preparation.wanted import Wanted
from laneway.core.refusals import Refusal

Stage = Literal["Ready", "Planned", "Staged", "Failed"]
"""`Planned`: steps are to be done; `Staged`: done, and the host must be rebooted; `Failed`:
refused."""


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """How far a host is, and what is to be done."""

    requirements: tuple[Requirement, ...] = ()
    """In the order of `Wanted`; one that cannot be met keeps no other from being met only when it
    is fixed: with refusals there is no plan."""
    plan: Plan = Plan(())
    """Empty when nothing is to be written, or when it is refused."""
    refusals: tuple[Refusal, ...] = ()

    @property
    def reboot_needed(self) -> bool:
        """Whether something that is written takes effect at the next boot only."""
        return any(one.state == "RebootNeeded" for one in self.requirements)


def decide(wanted: Wanted, facts: BootFacts) -> Preparation:  # noqa: ARG001 - follows
    """`Wanted()` takes back all that Laneway has written."""
    return Preparation()


def stage_of(preparation: Preparation) -> Stage:
    """The stage of one host by itself, which a roll-out refines."""
    if preparation.refusals:
        return "Failed"
    if preparation.plan.steps:
        return "Planned"
    return "Staged" if preparation.reboot_needed else "Ready"
