"""`laneway plan layout`: the layout that serves most of a demand, as a table and as VGPULayouts.

The printed objects can be applied as they are. They name their GPUs, so no other GPU changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from laneway.api import VGPULayout
from laneway.api.fields import API_VERSION
from laneway.cli import capacity_question as question
from laneway.cli import table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.history import begin
from laneway.cli.output import View, object_name, show
from laneway.cli.planning.seen import Past, demand_of, report
from laneway.cli.planning.sources import fleet_of
from laneway.cli.planning.wanted import in_full
from laneway.cli.statuses import ExitStatus
from laneway.core import names
from laneway.core.fleet.recommend.layout import Recommendation, recommend
from laneway.core.fleet.recommend.solve import SolverMissingError
from laneway.core.phrases import short_name
from laneway.views.memory import gib
from laneway.views.recommended import layouts

_COLUMNS = table.columns("LAYOUT", "GPUS", "MODE", "VGPUS OF EACH GPU", "NAMES OF THE GPUS")
_NAMED = 3


def answer(
    profiles: Sequence[str],
    source: str | None,
    *,
    past: Past,
    seconds: float,
    name: str,
    output: str | None,
    where: ClusterChoice,
) -> int:
    """Print the layout; gives the exit status. Raises Failure."""
    if not names.is_object_name(f"{name}-1"):
        raise click.BadParameter(
            f"--name {name!r}: no object can have this name. Use small letters, digits and -"
        )
    if profiles and past.since:
        raise click.BadParameter("name profiles, or take them from the history with --since")
    if past.since:
        begin("--since", past.since, int(time.time() * 1000))
    asked = question.requested(profiles)
    fleet = fleet_of(source, where)
    said: list[str] = []
    if profiles:
        wanted = in_full(fleet, asked, in_instances=True)
    else:
        seen = demand_of(fleet, past, where)
        wanted = seen.more
        said += report(seen, past)
    try:
        found = recommend(fleet, wanted, seconds=seconds)
    except SolverMissingError:
        raise Failure(
            "cannot search for a layout: the solver HiGHS is not installed. "
            "Install it: pip install 'laneway[planner]'"
        ) from None
    if found.demand:
        said += _report(found, partly=bool(fleet.unreadable))
    show(_view(layouts(found, name), said), output)
    return ExitStatus.DONE if found.served == found.demand else ExitStatus.NO


def _view(made: list[VGPULayout], said: Sequence[str]) -> View:
    def text(wide: bool) -> str:
        rows = tuple(_row(one, wide=wide) for one in made)
        shown = table.text(_COLUMNS, [table.Section("", rows)]) if rows else ""
        return table.paragraph(said) + shown

    return View(
        document={"apiVersion": "v1", "kind": "List", "items": [_plain(one) for one in made]},
        names=[object_name("VGPULayout", one.metadata.name) for one in made],
        text=text,
    )


def _plain(layout: VGPULayout) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "VGPULayout",
        "metadata": {"name": layout.metadata.name},
        "spec": msgspec.to_builtins(layout.spec),
    }


def _row(layout: VGPULayout, *, wide: bool) -> table.Row:
    gpus = layout.spec.gpu_selector.names
    named = gpus if wide else gpus[:_NAMED]
    more = f" and {len(gpus) - len(named)} more" if len(gpus) > len(named) else ""
    vgpus = ", ".join(f"{one.count} x {short_name(one.profile)}" for one in layout.spec.vgpus)
    cells = (layout.metadata.name, str(len(gpus)), layout.spec.mode, vgpus)
    return table.Row((*cells, ", ".join(named) + more))


def _report(found: Recommendation, *, partly: bool) -> Iterator[str]:
    gpus = " of the GPUs that could be read" if partly else ""
    served, wanted = sum(found.served.values()), sum(found.demand.values())
    yield f"Served: {served} of {wanted} vGPUs, {gib(found.served_mib)}."
    if served < wanted and found.optimal:
        yield f"No layout{gpus} serves more memory. That is proved."
    elif not found.optimal:
        yield (
            f"The search ended before a proof. No layout{gpus} serves more than "
            f"{gib(found.bound_mib)}."
        )
    for profile, count in found.demand.items():
        if left := count - found.served.get(profile, 0):
            yield f"  not served: {left} x {short_name(profile)}"
