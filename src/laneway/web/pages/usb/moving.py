"""Moving a claim to another device, after the claimed one was plugged in elsewhere.

The agent follows a device by itself where it is sure. Where several are alike, a user says which.
The new claim is made first: were it refused, the old one would still be there.
"""

from __future__ import annotations

from laneway.changes import batches
from laneway.changes.batches import Result
from laneway.web.claiming.change import said
from laneway.web.claiming.family import refused
from laneway.web.claiming.rows import Row
from laneway.web.page import Action, Again, Context, Done, Item, NotFound, Page, Report
from laneway.web.pages.usb.detail import named
from laneway.web.pages.usb.family import FAMILY, identity_of, port_of, successors
from laneway.web.pages.usb.listing import LIST, LIST_CLAIMS
from laneway.web.place import link
from laneway.web.visit import Visit


def _claimed(visit: Visit) -> Row:
    row = named(visit)
    if row.claim is None:
        raise NotFound(row.name)
    return row


def _context(visit: Visit) -> Context:
    row = _claimed(visit)
    found = successors(visit, row)
    return {
        "title": visit.texts("usb.move_title", name=row.name),
        "row": row,
        "found": found,
        "chosen": visit.sent("to") or (found[0].name if len(found) == 1 else ""),
        "port": port_of,
        "identity": identity_of,
        "reasons": {one.name: " ".join(refused(visit, one, release=False)) for one in found},
        "against": refused(visit, row, release=True),
        "problems": visit.problems,
    }


async def _act(visit: Visit) -> Done | Again | Report:
    row, texts = _claimed(visit), visit.texts
    new = next((one for one in successors(visit, row) if one.name == visit.sent("to")), None)
    if new is None:
        return Again({"to": [texts("usb.choose")]})
    old, target = FAMILY.target(row), FAMILY.target(new)
    client = visit.client
    tried = [
        *(await batches.tried(batches.claim, client, [target])).values(),
        *(await batches.tried(batches.release, client, [old])).values(),
    ]
    if words := [one.words for one in tried if one.outcome == "refused"]:
        return Again({"": words})
    [claimed] = await batches.made(batches.claim, client, [target])
    released = Result(old, "left")
    # Where it is claimed already, it is another user's: then the old claim stays.
    if claimed.outcome == "done":
        [released] = await batches.made(batches.release, client, [old])
    if released.outcome in ("done", "unchanged"):
        return Done(FAMILY.url(new), texts("usb.moved", old=row.name, new=new.name))
    items = [
        Item(
            texts("usb.claim_of", name=new.name),
            FAMILY.url(new),
            claimed.outcome,
            said(visit, new, claimed, release=False),
        ),
        Item(
            texts("usb.release_of", name=row.name),
            FAMILY.url(row),
            released.outcome,
            released.words,
        ),
    ]
    return Report(texts("usb.move_report"), items, link("usb"))


PAGES = (
    Page(
        "/usb/{name}/move",
        "usb-move.html",
        _context,
        needs=(LIST, LIST_CLAIMS),
        asks=FAMILY.rights,
    ),
)
ACTIONS = (Action("/usb/{name}/move", _act),)
