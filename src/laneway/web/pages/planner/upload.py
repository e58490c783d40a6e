"""A fleet from a file: taken into the memory of the session, or forgotten."""

from __future__ import annotations

from laneway.core.fleet import inventory_file
from laneway.core.fleet.inventory_file import InventoryError
from laneway.web.page import Action, Again, Done
from laneway.web.pages.planner.page import PATH
from laneway.web.pages.planner.source import CLUSTER, FIELD, FILE
from laneway.web.place import address
from laneway.web.planning import FILE_BYTES, Uploaded
from laneway.web.visit import Visit

_FILE = "file"


async def _act(visit: Visit) -> Done | Again:
    texts = visit.texts
    if visit.sent("forget"):
        visit.own.uploaded = None
        return Done(address(PATH, [(FIELD, CLUSTER)]), texts("planner.forgotten"))
    file = visit.files.get(_FILE)
    if file is None or not (file.name or file.content):
        return Again({_FILE: [texts("planner.choose_file")]})
    name = file.name[:80]
    content = file.content
    if content is None:
        return Again({_FILE: [texts("planner.too_large", name=name, most=FILE_BYTES >> 20)]})
    planning = visit.site.planning
    try:
        fleet = await planning.thread.run(lambda: inventory_file.read(content))
    except InventoryError as error:
        return Again({_FILE: [texts("planner.bad_file", name=name, why=str(error))]})
    planning.keep(visit.own, Uploaded(name, len(content), fleet))
    return Done(address(PATH, [(FIELD, FILE)]), texts("planner.read", name=name))


ACTIONS = (Action(PATH, _act, file_bytes=FILE_BYTES),)
