"""The changes of the form: rows with numbered fields in the query, such as `type-0` and `vms-0`.

A row keeps its number while the form is edited, so a field that is being typed into stays itself.
An empty row counts as nothing, and a row in which something is missing is a problem. A VM has up to
four kinds of devices: `type-0` and `each-0`, `type2-0` and `each2-0`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from laneway.core.fleet.changes import (
    MOST_OF_A_RESOURCE,
    MOST_VMS,
    AddGpus,
    AddNodes,
    AddVms,
    Change,
    ChangeRequests,
    LeaveNode,
    SetInstances,
    SetMode,
)
from laneway.core.fleet.made_up import MOST_GPUS, MOST_NODES
from laneway.core.fleet.sharing import MOST_INSTANCES
from laneway.core.gpu.modes import Mode
from laneway.web.place import Place
from laneway.web.rendering import Texts

MOST_ROWS = 8
"""Of each kind."""
MOST_DEVICES = 4
"""Kinds of devices of a VM."""
_MORE = ("", *map(str, range(2, MOST_DEVICES + 1)))


def _devices(type_: str, each: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{type_}{one}", f"{each}{one}") for one in _MORE)


DEVICES = {"vms": _devices("type", "each"), "changes": _devices("to", "per")}
"""Of a VM, the fields of its devices: what, and how many."""
_MANY = {key: tuple(one for pair in pairs for one in pair) for key, pairs in DEVICES.items()}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "vms": ("vms", "on", *_MANY["vms"]),
    "changes": ("who", *_MANY["changes"]),
    "leave": ("leave",),
    "modes": ("gpu", "mode", "instances"),
    "gpus": ("node", "board", "gpus"),
    "nodes": ("server", "nodes"),
}
"""The fields of a row of each kind of change."""
COUNTS: Mapping[str, int] = {
    "vms": MOST_VMS,
    "gpus": MOST_GPUS,
    "nodes": MOST_NODES,
    **{each: MOST_OF_A_RESOURCE for pairs in DEVICES.values() for _, each in pairs},
}
"""The fields that are numbers, with the largest; one that is empty is 1."""
_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*)=([A-Za-z0-9._-]*)")
_INSTANCES = re.compile(r"(?:MIG )?([0-9]g\.[0-9a-z.+-]+)(?:=([0-9]{1,3}))?")

Row = Mapping[str, str]


class Read(NamedTuple):
    """What a form says."""

    changes: tuple[Change, ...]
    fields: tuple[str, ...]
    """Of each change, the field to which its problems belong."""
    wrong: Mapping[str, str]
    """Problems by field: `vms-0`."""


def rows(place: Place, group: str) -> list[Row]:
    """The rows of a kind that are shown: one more than is used."""
    keys = GROUPS[group]
    every: list[Row] = [
        {key: place.get(f"{key}-{n}").strip() for key in keys} for n in range(MOST_ROWS)
    ]
    used = max((n for n, row in enumerate(every) if any(row.values())), default=-1)
    return every[: used + 2]


def may_restart(place: Place) -> bool:
    """Whether VMs that cannot be migrated may be restarted to make room."""
    return place.get("restart") == "yes"


def shown_devices(group: str, row: Row) -> tuple[tuple[str, str], ...]:
    """The fields of devices that are shown: one more than is used."""
    pairs = DEVICES[group]
    used = max((n for n, (what, _) in enumerate(pairs) if row[what]), default=-1)
    return pairs[: used + 2]


def read(place: Place, texts: Texts) -> Read:
    """The changes in the order in which the terminal has them: the fleet grows first."""
    found: list[tuple[str, Change]] = []
    wrong: dict[str, str] = {}
    for group in ("nodes", "gpus", "modes", "leave", "changes", "vms"):
        for number, row in enumerate(rows(place, group)):
            if any(row[key] for key in row if key not in COUNTS):  # A number alone says nothing.
                reading = _Reading(row, number, texts)
                change = reading.change(group)
                wrong |= reading.wrong
                found.append((f"{_NAMED[group]}-{number}", change))
    # As in the terminal, a mode comes before GPU instances.
    found.sort(key=lambda pair: _ORDER.index(type(pair[1])))
    if wrong:
        return Read((), (), wrong)
    return Read(tuple(one for _, one in found), tuple(field for field, _ in found), {})


_NAMED = {
    "nodes": "server",
    "gpus": "node",
    "modes": "gpu",
    "leave": "leave",
    "changes": "who",
    "vms": "vms",
}
"""The field that names what a change is about."""
_ORDER = (AddNodes, AddGpus, SetMode, SetInstances, LeaveNode, ChangeRequests, AddVms)


class _Reading:
    """One row, and what is wrong in it."""

    def __init__(self, row: Row, number: int, texts: Texts) -> None:
        self.row = row
        self.number = number
        self.texts = texts
        self.wrong: dict[str, str] = {}

    def change(self, group: str) -> Change:
        """What it says, for nothing where something is wrong."""
        match group:
            case "nodes":
                return AddNodes(nodes=f"{self._count('nodes')}x {self._needed('server')}")
            case "gpus":
                node, board = self._needed("node"), self._needed("board")
                return AddGpus(node=node, board=board, count=self._count("gpus"))
            case "modes":
                return self._sharing()
            case "leave":
                return LeaveNode(node=self._needed("leave"))
            case "changes":
                return self._request()
            case _:
                requests, count = self._devices("vms"), self._count("vms")
                return AddVms(requests=requests, count=count, selector=self._labels("on"))

    def _sharing(self) -> Change:
        gpu, instances = self._needed("gpu"), self.row["instances"]
        if not instances:
            return SetMode(gpus=(gpu,), mode=self._needed("mode"))
        if self.row["mode"] not in ("", Mode.MIG):
            self._tell("instances", self.texts("planner.not_mig"))
        counts: Counter[str] = Counter()
        for part in instances.split(","):
            found = _INSTANCES.fullmatch(part.strip())
            count = int(found[2] or 1) if found else 0
            if found is None or not 1 <= count <= MOST_INSTANCES:
                self._tell("instances", self.texts("planner.bad_instances"))
            else:
                counts[found[1]] += count
        return SetInstances(gpus=(gpu,), instances=dict(counts))

    def _request(self) -> ChangeRequests:
        who, requests = self._needed("who"), self._devices("changes")
        if "=" in who:
            return ChangeRequests(labels=self._labels("who"), requests=requests)
        return ChangeRequests(vms=(who,), requests=requests)

    def _devices(self, group: str) -> dict[str, int]:
        (first, _), *_others = DEVICES[group]
        found: Counter[str] = Counter()
        for what, each in DEVICES[group]:
            count = self._count(each)
            if name := self.row[what]:
                found[name] += count
        if not found:
            self._needed(first)
        return dict(found)

    def _labels(self, key: str) -> dict[str, str]:
        return dict(self._pairs(key))

    def _pairs(self, key: str) -> Iterator[tuple[str, str]]:
        text = self.row[key]
        for part in text.split(",") if text else ():
            found = _LABEL.fullmatch(part.strip())
            if found is None:
                self._tell(key, self.texts("planner.bad_labels"))
            else:
                yield found[1], found[2]

    def _needed(self, key: str) -> str:
        if not self.row[key]:
            self._tell(key, self.texts(f"planner.no_{key}"))
        return self.row[key]

    def _count(self, key: str) -> int:
        text, most = self.row[key], COUNTS[key]
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
        count = int(text) if is_number else 0 if text else 1
        if not 1 <= count <= most:
            self._tell(key, self.texts("planner.bad_count", most=f"{most:,}"))
        return count

    def _tell(self, key: str, words: str) -> None:
        self.wrong.setdefault(f"{key}-{self.number}", words)
