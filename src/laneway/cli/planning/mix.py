"""`laneway plan mix`: what becomes of requests over time, as tables and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
import msgspec

from laneway.cli import capacity_question as question
from laneway.cli import table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, show
from laneway.cli.planning.sources import fleet_of
from laneway.cli.planning.wanted import in_full
from laneway.core.fleet.mix import OWN, Asked, Line, MixError, Share, Simulated, seen, simulate
from laneway.core.history import length
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import MIB_PER_GIB
from laneway.views.memory import gib

_LINES = table.columns(
    "MODE", "FIRST CHOICE", "SERVED", "GIB SERVED", "BY SEED", "GIB IN USE", "WAITED", "MEAN WAIT"
)
_PROFILES = table.columns("PROFILE", "REQUESTED", "SERVED", "WAITED", "MEAN WAIT")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


class Times(NamedTuple):
    """As they were typed."""

    lifetime: str
    wait: str


def answer(
    profiles: Sequence[str],
    source: str | None,
    *,
    load: float,
    times: Times,
    seeds: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Print what becomes of the requests. Raises Failure."""
    typed = question.requested(profiles)
    life, wait = _time("--lifetime", times.lifetime), _time("--wait", times.wait)
    if not life:
        raise click.BadParameter("--lifetime 0 is no time")
    fleet = fleet_of(source, where)
    shares = in_full(fleet, typed) if typed else seen(fleet)
    if not shares:
        raise Failure(
            "no VM and no pod of the source requests a vGPU, so there is no mix to simulate. "
            "Name profiles with their shares: laneway plan mix L40S-24Q=1 L40S-8Q=3"
        )
    try:
        found = simulate(fleet, Asked(shares, load, wait / life, seeds))
    except MixError as error:
        raise Failure(f"cannot simulate the mix: {error}") from None
    view = View(
        document={"load": load, "lifetimeSeconds": life // 1000, **msgspec.to_builtins(found)},
        names=[short_name(one) for one in shares],
        text=lambda _: _text(found, f"{100 * load:g} %", times, life),
    )
    show(view, output)


def _time(option: str, text: str) -> int:
    found = length(text)
    if found is None:
        raise click.BadParameter(f"{option} {text[:60]!r}: write a time such as 90m, 8h or 7d")
    return found


def _text(found: Simulated, load: str, times: Times, life: int) -> str:
    rows = tuple(_row(line, found, life) for line in found.lines)
    own = [line for line in found.lines if line.policy == OWN]
    sections = [
        table.Section(
            f"{_mode(line, found)}, {OWN}", tuple(_profile(one, life) for one in line.profiles)
        )
        for line in own
    ]
    return (
        table.paragraph(_report(found, load, times))
        + table.text(_LINES, [table.Section("", rows)])
        + "\n"
        + table.text(_PROFILES, sections)
    )


def _report(found: Simulated, load: str, times: Times) -> Iterator[str]:
    waiting = f"waits up to {times.wait}" if length(times.wait) else "is refused"
    yield (
        f"{found.gpus} GPUs with {gib(found.gib * MIB_PER_GIB)}. Requests come for {load} of it, "
        f"each for {times.lifetime} on average. A request without room {waiting}."
    )
    if found.simulated < found.gpus:
        yield f"{found.simulated} of the GPUs are simulated, with their part of the requests."
    for profile in found.nowhere:
        yield f"  left out: no GPU that shares by time offers {short_name(profile)}"


def _mode(line: Line, found: Simulated) -> str:
    return line.mode or (f"{found.today}, as today" if found.today else "as today")


def _row(line: Line, found: Simulated, life: int) -> table.Row:
    seeds = f"{_percent(min(line.by_seed))} to {_percent(max(line.by_seed))}"
    return table.Row(
        (
            _mode(line, found),
            line.policy,
            _percent(line.all.served),
            _percent(line.memory),
            seeds,
            _percent(line.used),
            *_waits(line.all, life),
        )
    )


def _profile(one: Share, life: int) -> table.Row:
    names = ", ".join(short_name(name) for name in one.profiles)
    return table.Row((names, _percent(one.requested), _percent(one.served), *_waits(one, life)))


def _waits(one: Share, life: int) -> tuple[str, str]:
    return (_percent(one.waited), _written(one.wait * life)) if one.waited else ("", "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _written(milliseconds: float) -> str:
    size, unit = next((one for one in _UNITS if milliseconds >= 2 * one[0]), _UNITS[-1])
    return f"{milliseconds / size:.0f}{unit}"
