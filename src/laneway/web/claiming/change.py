"""Claim or release devices: first what would become of each, then a report of what did.

The page asks the API server for a dry run of each device. What is sent is tried once more, all of
it before anything is written, so that of an IOMMU group either every device is claimed or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from laneway.changes import batches
from laneway.changes.batches import Result, Write
from laneway.web.claiming.family import Family, claiming, releasing
from laneway.web.claiming.rows import Row, load_users, users
from laneway.web.holders import Holder
from laneway.web.page import Action, Again, Context, Done, Item, NotFound, Page, Report
from laneway.web.place import address, link
from laneway.web.visit import Visit

MOST = 100
"""So many devices at once; a page of a table has no more."""


class Line(NamedTuple):
    """One device, and what would become of it."""

    row: Row
    outcome: str
    """`done`, `unchanged` or `refused`."""
    words: str
    warnings: Sequence[str]
    is_others: bool
    """Whether another user has claimed it."""
    users: Sequence[Holder]


def pages_of(family: Family) -> tuple[Page, ...]:
    """The page of a family; its address says what is to be done with which devices."""
    return (
        Page(
            f"/{family.path}/change",
            "claiming-change.html",
            lambda visit: _context(visit, family),
            asks=family.rights,
            prepare=lambda visit: _prepare(visit, family),
        ),
    )


def actions_of(family: Family) -> tuple[Action, ...]:
    return (Action(f"/{family.path}/change", lambda visit: _act(visit, family)),)


def address_of(family: Family, do: str, rows: Iterable[Row], back: str = "") -> str:
    """Where these devices are claimed (`claim`) or released (`release`)."""
    names = (("row", row.name) for row in rows)
    return address(link(family.path, "change"), [("do", do), *names, ("back", back)])


def _is_release(visit: Visit) -> bool:
    return visit.place.get("do") == "release"


def _chosen(visit: Visit, family: Family, names: Iterable[str]) -> list[Row]:
    found = (family.row(visit.caches, name) for name in dict.fromkeys(names))
    rows = [row for row in found if row is not None][:MOST]
    return [row for row in rows if row.device is not None or _is_release(visit)]


def _back(visit: Visit, family: Family) -> str:
    """The list as the user left it."""
    found = visit.place.get("back")
    root = link(family.path)
    return found if found.startswith(f"{root}?") else root


async def _prepare(visit: Visit, family: Family) -> None:
    rows = _chosen(visit, family, visit.place.all("row"))
    if not rows and visit.place.all("row"):
        raise NotFound("no device of these names")
    write: Write = batches.release if _is_release(visit) else batches.claim
    targets = [family.target(row) for row in rows]
    visit.data["tried"] = await batches.tried(write, visit.client, targets)
    await load_users(visit, rows)


def _context(visit: Visit, family: Family) -> Context:
    rows, texts = _chosen(visit, family, visit.place.all("row")), visit.texts
    tried, release = visit.data.get("tried", {}), _is_release(visit)
    lines = [_line(visit, row, tried[row.name], rows) for row in rows if row.name in tried]
    # The stream of changes asks without `tried`, for a page that has no such part.
    possible = [line for line in lines if line.outcome == "done"]
    along = {} if release else _along(visit, family, rows)
    back = _back(visit, family)
    do, names = "release" if release else "claim", ", ".join(row.name for row in rows[:1])
    return {
        "title": texts.count(f"claiming.{do}_title", len(rows), name=names)
        if rows
        else texts("claiming.none_selected"),
        "family": family,
        "release": release,
        "lines": lines,
        "possible": possible,
        "along": list(along.values()),
        "along_url": address_of(family, do, [*rows, *along.values()], back),
        "others": [line for line in possible if line.is_others],
        "exact": visit.sent("exact") == "on",
        "problems": visit.problems,
        "url": visit.place.url,
        "back": family.url(rows[0]) if len(rows) == 1 and back == link(family.path) else back,
    }


def _line(visit: Visit, row: Row, result: Result, rows: Sequence[Row]) -> Line:
    release = _is_release(visit)
    warnings: Sequence[str] = ()
    if result.outcome == "done":
        verdict = releasing(visit, row) if release else claiming(visit, row, rows)
        warnings = verdict.warnings
    is_others = release and row.claim is not None and row.claimed_by != visit.user.name
    words = said(visit, row, result, release=release)
    return Line(row, result.outcome, words, warnings, is_others, users(visit, row))


def said(visit: Visit, row: Row, result: Result, *, release: bool) -> str:
    """Why a device is not claimed or released, or that there is nothing to do."""
    if result.outcome != "unchanged":
        return result.words
    if release:
        return visit.texts("claiming.not_claimed")
    user = row.claimed_by or visit.texts("claiming.unnamed")
    return visit.texts("claiming.claimed_already", user=user)


def _along(visit: Visit, family: Family, rows: Sequence[Row]) -> dict[str, Row]:
    """The other devices that leave the node with these, and are not claimed."""
    chosen = {row.name for row in rows}
    return {
        other.name: other
        for row in rows
        for other in family.together(visit, row)
        if other.claim is None and other.name not in chosen
    }


async def _act(visit: Visit, family: Family) -> Done | Again | Report:
    release, texts = _is_release(visit), visit.texts
    rows = _chosen(visit, family, visit.all_sent("device"))
    if not rows:
        raise NotFound("no device of these names")
    others = [row for row in rows if row.claim is not None and row.claimed_by != visit.user.name]
    if release and others and visit.sent("others") != "on":
        return Again({"others": [texts("claiming.others_missing")]})
    exact = visit.sent("exact") == "on"
    targets = [family.target(row)._replace(is_exact=exact) for row in rows]
    write: Write = batches.release if release else batches.claim
    refused = [
        result
        for result in (await batches.tried(write, visit.client, targets)).values()
        if result.outcome == "refused"
    ]
    if refused:
        return Again({"": [texts("claiming.nothing_written"), *(one.words for one in refused)]})
    results = await batches.made(write, visit.client, targets)
    if len(results) == 1 and results[0].outcome == "refused":
        return Again({"": [results[0].words]})
    if len(results) == 1 and results[0].outcome != "unknown":
        done = texts("claiming.released" if release else "claiming.claimed", name=rows[0].name)
        is_left = rows[0].device is not None
        return Done(family.url(rows[0]) if is_left else _back(visit, family), done)
    return _report(visit, family, rows, results)


def _report(visit: Visit, family: Family, rows: Sequence[Row], results: Sequence[Result]) -> Report:
    release, texts = _is_release(visit), visit.texts
    do = "release" if release else "claim"
    done = [row for row, one in zip(rows, results, strict=True) if one.outcome == "done"]
    is_whole = all(one.outcome in ("done", "unchanged") for one in results)
    back = _back(visit, family)
    items = [
        Item(row.name, family.url(row), one.outcome, said(visit, row, one, release=release))
        for row, one in zip(rows, results, strict=True)
    ]
    undo = address_of(family, "claim" if release else "release", done, back)
    return Report(
        texts(f"claiming.{do}_report", done=len(done), all=len(rows)),
        items,
        back,
        undo if done and not is_whole else "",
    )
