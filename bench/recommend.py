"""How long it takes to recommend a layout, and to find the least moves, over a random fleet.

Every fleet is of L40S, eight on a node. The vGPUs in use are random; the demand is a mix of sizes
that is as large as what is free, and half as large again. The seconds are of the processor.
"""

from __future__ import annotations

import random
import time
from collections import Counter

from support.report import arguments, header, table

from laneway.core.fleet import board
from laneway.core.fleet.model import Fleet, Gpu, Node, Vgpu, Vm
from laneway.core.fleet.moves import least_moves
from laneway.core.fleet.recommend.layout import recommend
from laneway.core.gpu.modes import Mode
from laneway.core.vgpu.placement import Carried, arrange
from laneway.core.vgpu.profiles import MIB_PER_GIB, framebuffer_mib

SIZES = (4, 6, 8, 12, 16, 24, 48)
NAMES = tuple(f"NVIDIA L40S-{size}Q" for size in SIZES)
WHOLE = 48


def gpu(number: int, luck: random.Random) -> Gpu:
    """An L40S with up to four vGPUs that VMs have."""
    mode = luck.choice((Mode.SAME_SIZE, Mode.MIXED_SIZE))
    name, node = f"gpu{number}", f"node{number // 8}"
    there: list[Vgpu] = []
    for _ in range(luck.randint(1, 4)):
        is_free = mode is Mode.MIXED_SIZE or not there
        profile = luck.choice(NAMES[:5]) if is_free else there[0].profile
        empty = Gpu(name=name, node=node, address="", device="26b9", mode=mode, profiles=NAMES)
        carried = [Carried(one.profile, one.slot) for one in there]
        placed = arrange(board.card(empty), carried, {profile: 1}, mixed=mode is Mode.MIXED_SIZE)
        if placed:
            vm = f"vms/{number}-{len(there)}"
            one = Vgpu(name=vm, profile=profile, slot=placed[0].start, holder=vm)
            there.append(one)
    return Gpu(
        name=name,
        node=node,
        address="",
        device="26b9",
        mode=mode,
        functions=32,
        ecc=True,
        driver="580.65.05",
        profiles=NAMES,
        vgpus=tuple(there),
    )


def fleet(gpus: int, luck: random.Random) -> Fleet:
    there = tuple(gpu(number, luck) for number in range(gpus))
    return Fleet(
        nodes=tuple(Node(name=name) for name in sorted({one.node for one in there})),
        gpus=there,
        vms=tuple(Vm(name=one.holder, migratable=True) for each in there for one in each.vgpus),
    )


def demand(gib: float, luck: random.Random) -> Counter[str]:
    """Profiles until they are as large together."""
    found: Counter[str] = Counter()
    while gib > 0:
        size = luck.choice(SIZES)
        found[f"NVIDIA L40S-{size}Q"] += 1
        gib -= size
    return found


def measure(gpus: int, load: float, luck: random.Random) -> list[str]:
    there = fleet(gpus, luck)
    taken = sum(framebuffer_mib(one.profile) for each in there.gpus for one in each.vgpus)
    wanted = demand(load * (gpus * WHOLE - taken / MIB_PER_GIB), luck)
    began = time.process_time()
    found = recommend(there, wanted)
    layout = time.process_time() - began
    began = time.process_time()
    moves = least_moves(there, {NAMES[-1]: 2})
    searched = time.process_time() - began
    answer = f"{moves.outcome}, {len(moves.moves)}" if moves.moves else f"{moves.outcome}"
    gap = found.bound_mib - found.served_mib
    return [
        f"{gpus}",
        f"{load:g}",
        f"{layout:.2f}",
        f"{found.served_mib // MIB_PER_GIB}",
        "optimal" if found.optimal else f"within {gap // MIB_PER_GIB} GiB",
        f"{searched:.2f}",
        answer,
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--gpus", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    header()
    rows = [
        measure(gpus, load, random.Random(asked.seed)) for gpus in asked.gpus for load in (1, 1.5)
    ]
    head = ["GPUs", "demand/free", "layout s", "served GiB", "proof", "moves s", "two 48Q"]
    table("Layouts and moves, in seconds of the processor", head, rows)


if __name__ == "__main__":
    main()
