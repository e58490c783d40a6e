"""What the form offers: types of devices, nodes, GPUs, boards, servers and modes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from laneway.core.fleet.made_up import SERVERS, boards
from laneway.core.fleet.model import Fleet
from laneway.core.gpu.modes import Mode
from laneway.core.names import is_vgpu_resource, vgpu_resource_name
from laneway.views.order import natural
from laneway.web.pages.planner.fields import Row

_LISTED = 500
"""Nodes, and GPUs, that are offered while a name is typed; all can be typed."""

Options = list[tuple[str, str]]


class Choices(NamedTuple):
    """Values with their labels."""

    vgpus: Options
    devices: Options
    boards: Options
    servers: Options
    modes: Options
    nodes: list[str]
    gpus: list[str]


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
    names = {name for gpu in fleet.gpus for name in gpu.profiles}
    names |= {vgpu.profile for gpu in fleet.gpus for vgpu in gpu.vgpus}
    tails = {name.rpartition(" ")[2] for name in names}
    names |= {
        name for board in coming for name in every[board][1] if name.rpartition(" ")[2] not in tails
    }
    devices = {one.resource for one in fleet.devices if not is_vgpu_resource(one.resource)}
    return Choices(
        vgpus=[(vgpu_resource_name(one), one) for one in sorted(names, key=natural)],
        devices=[(one, one) for one in sorted(devices, key=natural)],
        boards=_boards(),
        servers=[(word, f"{word} ({count} x {one})") for word, (one, count) in SERVERS.items()],
        modes=[(str(mode), str(mode)) for mode in Mode],
        nodes=sorted((node.name for node in fleet.nodes), key=natural)[:_LISTED],
        gpus=sorted((gpu.name for gpu in fleet.gpus), key=natural)[:_LISTED],
    )


@lru_cache(maxsize=1)
def _boards() -> Options:
    return [(board.lower(), board) for board in sorted(boards(), key=natural)]
