"""What `laneway host prepare` prints and does."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

import click

from laneway.cli import table
from laneway.cli.errors import Failure, one_line
from laneway.cli.host.carry_out import (
    Printer,
    finish_interrupted,
    list_steps,
    until_interrupted,
)
from laneway.cli.host.hardware import ACTOR, locked, opened
from laneway.core.pci import NVIDIA
from laneway.core.plan import BootStep
from laneway.core.preparation.decide import Preparation, decide, stage_of
from laneway.core.preparation.wanted import NOTHING, HugePages, Wanted, usual
from laneway.host.boot.facts import read_facts
from laneway.host.boot.prepare import prepare
from laneway.host.boot.reboot import reboot
from laneway.host.boot.verify import verify
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError
from laneway.host.scan import scan
from laneway.views.steps import step_count

_COUNT = re.compile(r"[0-9]{1,9}")
_NONE = "none"
_NOTHING_TO_UNDO = "Nothing is left to undo."


class Request(NamedTuple):
    """The options of the command."""

    iommu: bool
    iommu_passthrough: bool
    vfio: bool
    drivers: tuple[str, ...]
    """Empty: as the host's GPUs need it."""
    huge_pages: tuple[HugePages, ...]
    arguments: tuple[str, ...]


def huge_pages(texts: tuple[str, ...]) -> tuple[HugePages, ...]:
    """What `1G=16` names. Raises UsageError."""
    found = []
    for text in texts:
        size, _, count = text.partition("=")
        if _COUNT.fullmatch(count) is None:
            raise click.UsageError(f"--huge-pages {text[:60]!r}: write SIZE=COUNT, such as 1G=16")
        found.append(HugePages(size, int(count)))
    return tuple(found)


def prepare_host(
    request: Request | None,
    simulate: str | None,
    state_dir: str | None,
    *,
    plan_only: bool,
    reboot: bool,
) -> None:
    """Plan or apply a request, or undo all (None), and reboot where requested. Raises Failure."""
    with opened(simulate, state_dir) as hardware:
        wanted = NOTHING if request is None else _wanted(request, hardware)
        work = _show(hardware, wanted) if plan_only else _carry_out(hardware, wanted, reboot)
        asyncio.run(until_interrupted(work, hardware))


def _wanted(request: Request, hardware: Hardware) -> Wanted:
    drivers = request.drivers
    if not drivers:
        gpus = [one for one in scan(hardware.host).functions if one.is_gpu]
        drivers = usual(nvidia=any(one.vendor == NVIDIA for one in gpus)).blocked_drivers
    return Wanted(
        iommu=request.iommu,
        iommu_passthrough=request.iommu_passthrough,
        vfio_at_boot=request.vfio,
        blocked_drivers=tuple(dict.fromkeys(one for one in drivers if one != _NONE)),
        huge_pages=request.huge_pages,
        kernel_arguments=tuple(dict.fromkeys(request.arguments)),
    )


async def _look(hardware: Hardware, wanted: Wanted) -> Preparation:
    return decide(wanted, await read_facts(hardware, wanted))


async def _show(hardware: Hardware, wanted: Wanted) -> None:
    if hardware.state.interrupted():
        click.echo("An interrupted plan would be finished first. That may change what follows.")
    preparation = await _look(hardware, wanted)
    _requirements(preparation)
    _refuse(preparation, "nothing would be changed")
    if preparation.plan.steps:
        click.echo("Would do, in this order:")
        list_steps(preparation.plan)
    elif wanted == NOTHING:
        click.echo(_NOTHING_TO_UNDO)
    _next(preparation, wanted)


async def _carry_out(hardware: Hardware, wanted: Wanted, then_reboot: bool) -> None:
    with locked(hardware):
        await finish_interrupted(hardware)
    before = await _look(hardware, wanted)
    try:
        after = await prepare(hardware, wanted, actor=ACTOR, reason="prepare", progress=Printer())
    except StepError as error:
        undone = " The steps before it were undone." if error.undone else ""
        raise Failure(error.refusal.words + undone) from error
    _requirements(after)
    _refuse(after, "nothing was changed")
    done = len(before.plan.steps)
    nothing = _NOTHING_TO_UNDO if wanted == NOTHING else "Nothing is left to write."
    click.echo(f"Done: {step_count(done)}." if done else nothing)
    changed = any(isinstance(step, BootStep) for step in before.plan.steps)
    if not then_reboot:
        _next(after, wanted)
    elif after.reboot_needed or changed:
        await _reboot(hardware, wanted)


async def _reboot(hardware: Hardware, wanted: Wanted) -> None:
    if problems := await verify(hardware, wanted):
        raise Failure(one_line(f"the host is not rebooted: {'; '.join(problems)}"))
    await reboot(hardware)
    click.echo("The host reboots.")


def _requirements(preparation: Preparation) -> None:
    rows = tuple(
        table.Row((one.name, one.state, one_line(one.message))) for one in preparation.requirements
    )
    if rows:
        shown = table.columns("REQUIREMENT", "STATE", "MESSAGE")
        click.echo(table.text(shown, [table.Section("", rows)]))


def _refuse(preparation: Preparation, effect: str) -> None:
    for refusal in preparation.refusals:
        click.echo(one_line(f"{refusal.reason}: {refusal.words}"), err=True)
    if preparation.refusals:
        raise Failure(f"refused; {effect}")


def _next(preparation: Preparation, wanted: Wanted) -> None:
    """What comes next, if anything: the command again, because its other options matter as well."""
    undo = wanted == NOTHING
    match stage_of(preparation):
        case "Planned":
            how = "without --plan" if undo else "with --apply"
            click.echo(f"To make these changes, run the same command {how}.")
        case "Staged":
            click.echo(
                "This takes effect at the next boot. To reboot now, run the same command with "
                f"{'--undo' if undo else '--apply'} --reboot."
            )
        case "Ready" if wanted != NOTHING:
            click.echo("The host is prepared.")
        case _:
            pass
