"""Made-up fleets, from a few words: `8x l40s`, `4x hgx-h100, 2x a2`.

Each part is so many nodes of one kind: a server that Laneway simulates by its name, or a board of
the catalogue, which is then the only GPU of its node; `*4` behind it makes that four. The GPUs are
empty and time-sliced, and take what the catalogue says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from laneway.core.fleet.model import Fleet, Gpu, Node
from laneway.core.phrases import closest, listed
from laneway.core.vgpu.catalogue import every_profile

MOST_NODES = 1000
MOST_GPUS = 16
_PART = re.compile(
    r"(?:(-?[0-9]{1,18})\s*x\s*)?([A-Za-z0-9][A-Za-z0-9. -]*?)(?:\s*\*\s*([0-9]{1,3}))?"
)
SERVERS = {
    "a2": ("A2", 1),
    "a2-vfio": ("A2", 1),
    "l40s": ("L40S", 2),
    "a100": ("A100", 4),
    "hgx-h100": ("H100XM", 8),
    "rtx-pro-6000": ("RTX Pro 6000 Blackwell DC", 2),
}
"""The simulated servers of `laneway.sim.models`: board and count."""


class MadeUpError(ValueError):
    """The words describe no fleet; says what would be right."""


@lru_cache(maxsize=1)
def boards() -> dict[str, tuple[str, tuple[str, ...]]]:
    """PCI device id and time-sliced profiles of each board, by its name as the catalogue has it."""
    found: dict[str, tuple[str, list[str]]] = {}
    for one in every_profile():
        if not one.mig_backed:
            found.setdefault(one.board, (one.device, []))[1].append(one.name)
    return {board: (device, tuple(names)) for board, (device, names) in found.items()}


def made_up(text: str) -> Fleet:
    """The fleet that the words describe. Raises MadeUpError."""
    nodes: list[Node] = []
    gpus: list[Gpu] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise MadeUpError(
                f"{part.strip()[:60]!r}: write NUMBERx BOARD, such as '8x l40s' or '4x a40*2'"
            )
        count = int(match[1] or 1)
        kind = match[2].strip().lower()
        board, each = board_of(kind)
        each = int(match[3] or each)
        if not 1 <= count <= MOST_NODES - len(nodes):
            raise MadeUpError(f"{part.strip()[:60]!r}: use 1 to {MOST_NODES} nodes in all")
        if not 1 <= each <= MOST_GPUS:
            raise MadeUpError(f"{part.strip()[:60]!r}: use 1 to {MOST_GPUS} GPUs on a node")
        label = kind.replace(" ", "-").replace(".", "-")
        first = sum(node.name.startswith(f"{label}-") for node in nodes) + 1
        for number in range(first, first + count):
            node = Node(name=f"{label}-{number}")
            nodes.append(node)
            gpus += [made_up_gpu(node.name, board, slot) for slot in range(each)]
    return Fleet(nodes=tuple(nodes), gpus=tuple(gpus))


def board_of(kind: str) -> tuple[str, int]:
    """The board that a word means, and how many a server of this kind has. Raises MadeUpError."""
    if kind in SERVERS:
        return SERVERS[kind]
    return board_named(kind, SERVERS), 1


def board_named(kind: str, servers: Iterable[str] = ()) -> str:
    """The board that a word means, and no server. Raises MadeUpError.

    `servers`: what could have been meant as well.
    """
    known = {board.lower(): board for board in boards()}
    if kind in known:
        return known[kind]
    meant = closest(kind, [*servers, *known]) or (*servers, *sorted(known))
    what = "board or server" if servers else "board"
    raise MadeUpError(f"no {what} {kind[:60]!r} is known. Use {listed(dict.fromkeys(meant))}")


def made_up_gpu(node: str, board: str, slot: int) -> Gpu:
    """An empty GPU of a board in a slot of a node."""
    device, names = boards()[board]
    return Gpu(
        name=f"{node}-0000{slot + 1:02x}000",
        node=node,
        address=f"0000:{slot + 1:02x}:00.0",
        device=device,
        board=board,
        profiles=names,
    )
