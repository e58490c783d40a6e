"""What the form offers: types of devices, nodes, GPUs, boards, servers and modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from laneway.core.fleet import resources
from laneway.core.fleet.made_up import SERVERS, boards
from laneway.core.fleet.model import Fleet
from laneway.core.gpu.modes import Mode
from laneway.core.names import is_vgpu_resource, vgpu_resource_name
from laneway.core.vgpu.profiles import by_sharing
from laneway.views.order import natural
from laneway.web.pages.planner.fields import Row

_LISTED = 500
"""Nodes, GPUs and VMs that are offered while a name is typed, the first of the fleet; all can be
typed."""

Options = list[tuple[str, str]]


class Choices(NamedTuple):
    """Values with their labels."""

    vgpus: Options
    """Time-sliced."""
    backed: Options
    """In GPU instances."""
    instances: Options
    """For containers."""
    devices: Options
    boards: Options
    servers: Options
    modes: Options
    nodes: list[str]
    gpus: list[str]
    vms: list[str]
    labels: list[str]
    """Of nodes: `KEY=VALUE`."""


def choices(fleet: Fleet, adding: Iterable[Row]) -> Choices:
    """Those of a fleet; `adding`: rows that add boards or servers, whose profiles are offered."""
    every = boards()
    by_word = {board.lower(): board for board in every}
    by_word |= {word: board for word, (board, _) in SERVERS.items()}
    coming = {
        by_word[word]
        for row in adding
        for key in ("board", "server")
        if (word := row.get(key, "").lower()) in by_word
    }
    sliced, backed = by_sharing(resources.profiles(fleet, coming))
    devices = {one.resource for one in fleet.devices if not is_vgpu_resource(one.resource)}
    return Choices(
        vgpus=_profiles(sliced),
        backed=_profiles(backed),
        instances=[(one, one) for one in sorted(resources.instances(fleet), key=natural)],
        devices=[(one, one) for one in sorted(devices, key=natural)],
        boards=_boards(),
        servers=[(word, f"{word} ({count} x {one})") for word, (one, count) in SERVERS.items()],
        modes=[(str(mode), str(mode)) for mode in Mode],
        nodes=[node.name for node in fleet.nodes[:_LISTED]],
        gpus=[gpu.name for gpu in fleet.gpus[:_LISTED]],
        vms=[vm.name for vm in fleet.vms[:_LISTED]],
        labels=sorted(_labels(fleet), key=natural)[:_LISTED],
    )


def _profiles(names: Iterable[str]) -> Options:
    return [(vgpu_resource_name(one), one) for one in sorted(names, key=natural)]


def _labels(fleet: Fleet) -> set[str]:
    """Those that differ between nodes: what all have selects nothing."""
    counts = Counter(pair for node in fleet.nodes for pair in node.labels.items())
    return {f"{key}={value}" for (key, value), n in counts.items() if n < len(fleet.nodes)}


@lru_cache(maxsize=1)
def _boards() -> Options:
    return [(board.lower(), board) for board in sorted(boards(), key=natural)]
