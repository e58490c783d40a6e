"""The menu: the pages that everybody finds, in the order of Harvester's."""

from __future__ import annotations

from typing import NamedTuple

from laneway.web.visit import Visit

_PAGES = (
    ("overview", "/"),
    ("gpus", "/gpus"),
    ("vgpus", "/vgpus"),
    ("mig", "/mig"),
    ("pci", "/pci"),
    ("networks", "/networks"),
    ("usb", "/usb"),
    ("vms", "/vms"),
    ("pools", "/pools"),
    ("planner", "/planner"),
    ("nodes", "/nodes"),
    ("hosts", "/hosts"),
    ("activity", "/activity"),
    ("history", "/history"),
)


class Item(NamedTuple):
    """An entry of the menu."""

    title: str
    url: str
    current: bool


def navigation(visit: Visit) -> list[Item]:
    """The menu as seen from a page."""
    path = visit.place.path
    return [
        Item(
            visit.texts(f"nav.{name}"),
            url,
            current=path == url or (url != "/" and path.startswith(f"{url}/")),
        )
        for name, url in _PAGES
    ]
