"""`laneway plan what-if`: the answer as text and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from laneway.cli import table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, show
from laneway.cli.planning.asked import Asked, changes
from laneway.cli.planning.sources import fleet_of
from laneway.cli.statuses import ExitStatus
from laneway.core.fleet.changes import ChangeError
from laneway.core.fleet.what_if import Answer, Placement, what_if

_MOST_LINES = 40


def answer(asked: Asked, source: str | None, output: str | None, where: ClusterChoice) -> int:
    """Print the answer; gives the exit status. Raises Failure."""
    fleet = fleet_of(source, where)
    try:
        found = what_if(fleet, changes(asked, fleet))
    except ChangeError as error:
        raise Failure(str(error)) from None
    lines = list(report(found))
    view = View(
        document={"answer": found.yes, **_document(found)},
        names=[one.vm for one in found.placed],
        text=lambda _: "".join(f"{part}\n" for line in lines for part in table.indented(line)),
    )
    show(view, output)
    return ExitStatus.DONE if found.yes else ExitStatus.NO


def _document(found: Answer) -> dict[str, object]:
    return {name: getattr(found, name) for name in Answer.__struct_fields__}


def report(found: Answer) -> Iterator[str]:
    """The answer in lines."""
    all_vms = len(found.placed) + len(found.refused)
    if found.yes:
        yield f"Yes: there is room for {_vms(all_vms)}." if all_vms else "Yes: no VM has to move."
    elif found.refused:
        yield f"No: of {_vms(all_vms)} there is room for {len(found.placed)}."
    else:
        yield "No: not every change is possible."
    yield from (f"  {words}" for words in found.unchangeable)
    for one in found.placed[:_MOST_LINES]:
        yield f"  {one.vm}: {_where(one)}"
    if len(found.placed) > _MOST_LINES:
        yield f"  and {len(found.placed) - _MOST_LINES} more; -o json lists them all"
    for words, group in groupby(found.refused, key=lambda one: one.words):
        yield f"  no room for {_named([one.vm for one in group])}: {words}"
    for words, group in groupby(found.waiting, key=lambda one: one.words):
        yield f"  still waiting, as today: {_named([one.vm for one in group])}: {words}"
    for left in found.left:
        yield f"  room for {left.resource}: {left.then}, today {left.today}"


def _where(one: Placement) -> str:
    before = f" (today on {one.before})" if one.before and one.before != one.node else ""
    gpus = ", ".join(
        f"{device.profile} on {device.gpu}, {device.how}" if device.gpu else device.resource
        for device in one.devices
    )
    return f"node {one.node}{before}: {gpus}"


def _vms(count: int) -> str:
    return f"{count} VM{'s' if count != 1 else ''}"


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
