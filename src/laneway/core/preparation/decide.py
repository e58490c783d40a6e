"""From what is asked of a host and what it is like, to the steps that are missing.

A requirement is met when it runs and will run after the next boot too. When a requirement cannot be
met nothing is written at all: a host that is rebooted must come back with all that was requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from laneway.core.plan import Plan
from laneway.core.preparation.configured import Configured, configured, damage
from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.judge import ACPI_TABLES, Judged, judge
from laneway.core.preparation.loaders import LOADERS
from laneway.core.preparation.modules import judge_modules
from laneway.core.preparation.requirements import Requirement
from laneway.core.preparation.wanted import Wanted, invalid
from laneway.core.refusals import (
    BootConfigurationDamaged,
    BootConfigurationUnreadable,
    BootLoaderUnknown,
    PreparationInvalid,
    Refusal,
    RequirementImpossible,
)

Stage = Literal["Ready", "Planned", "Staged", "Failed"]
"""`Planned`: steps are to be done; `Staged`: done, and the host must be rebooted; `Failed`:
refused."""


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """How far a host is, and what is to be done."""

    requirements: tuple[Requirement, ...] = ()
    """In the order of `Wanted`."""
    plan: Plan = Plan(())
    """Empty when nothing is to be written, or when it is refused."""
    refusals: tuple[Refusal, ...] = ()

    @property
    def reboot_needed(self) -> bool:
        """Whether something that is written takes effect at the next boot only."""
        return any(one.state == "RebootNeeded" for one in self.requirements)


def stage_of(preparation: Preparation) -> Stage:
    """The stage of one host by itself, which a roll-out refines."""
    if preparation.refusals:
        return "Failed"
    if preparation.plan.steps:
        return "Planned"
    return "Staged" if preparation.reboot_needed else "Ready"


def decide(wanted: Wanted, facts: BootFacts) -> Preparation:
    """How far a host is. `Wanted()` takes back all that Laneway has written."""
    if problems := invalid(wanted):
        return Preparation(refusals=(PreparationInvalid(problems),))
    boot = configured(facts)
    judged = tuple(judge(wanted, facts, boot))
    modules = judge_modules(wanted, facts)
    requirements = (*_in_order(judged, modules.requirement), *_removed(facts, boot))
    refusals = tuple(_against(judged, modules.requirement, facts, boot))
    if refusals:
        return Preparation(requirements=requirements, refusals=refusals)
    groups = [one.group for one in judged if one.group and not boot.is_theirs(one.group)]
    try:
        words = boot.loader.steps(boot.files, tuple(dict.fromkeys(groups))) if boot.loader else ()
    except ValueError as error:
        wrong = damage(facts)
        refusal = (
            BootConfigurationDamaged(wrong)
            if wrong
            else RequirementImpossible("The kernel command line", f"{error}.")
        )
        return Preparation(requirements=requirements, refusals=(refusal,))
    # What is written by Laneway is whole: what a generator makes is judged where it is made.
    generated = boot.loader is not None and boot.loader.generator is not None
    adds = any(step.arguments for step in words)
    # Without an entry there is nothing to add words to.
    stuck = not adds and any(one.requirement.state == "Missing" for one in judged)
    if (stuck or (adds and not generated)) and (wrong := damage(facts)):
        return Preparation(requirements=requirements, refusals=(BootConfigurationDamaged(wrong),))
    return Preparation(requirements=requirements, plan=Plan((*modules.steps, *words)))


def unfit(wanted: Wanted, facts: BootFacts) -> tuple[str, ...]:
    """Why the host must not be rebooted as it is now, in words; nothing when it may."""
    generator = loader.generator if (loader := LOADERS.get(facts.loader.name)) else None
    problems = [*damage(facts), *(f"{path}: {why}" for path, why in _unreadable(facts).items())]
    if generator is not None and generator.candidate in facts.loader.files:
        problems.append(f"{generator.config} is being made again, or was left half way")
    preparation = decide(wanted, facts)
    problems += [
        f"{one.name}: {one.message}"
        for one in preparation.requirements
        if one.state in ("Missing", "Impossible")
    ]
    return tuple(problems)


def _removed(facts: BootFacts, boot: Configured) -> Iterator[Requirement]:
    """What Laneway removed, and the kernel runs with until the next boot."""
    to_come = {word for entry in boot.entries for word in entry.words}
    for word in facts.removed:
        if word in boot.running and word not in to_come:
            later = f"{word} is removed, which takes effect at the next boot"
            yield Requirement(f"Removed/{word}", "RebootNeeded", later)


def _in_order(judged: tuple[Judged, ...], modules: Requirement | None) -> tuple[Requirement, ...]:
    """As in `Wanted`: the drivers after the IOMMU."""
    found = [one.requirement for one in judged]
    if modules is not None:
        at = sum(one.name.startswith("Iommu") for one in found)
        found.insert(at, modules)
    return tuple(found)


def _against(
    judged: tuple[Judged, ...], modules: Requirement | None, facts: BootFacts, boot: Configured
) -> Iterator[Refusal]:
    if unreadable := _unreadable(facts):
        yield BootConfigurationUnreadable(tuple(f"{k}: {v}" for k, v in unreadable.items()))
        return
    yield from (one.refusal for one in judged if one.refusal is not None)
    if modules is not None and modules.state == "Impossible":
        yield RequirementImpossible(modules.name, modules.message)
    missing = [one.group for one in judged if one.requirement.state == "Missing"]
    if missing and boot.loader is None:
        yield BootLoaderUnknown(tuple(missing))


def _unreadable(facts: BootFacts) -> dict[str, str]:
    return {path: why for path, why in facts.unreadable.items() if path != ACPI_TABLES}
