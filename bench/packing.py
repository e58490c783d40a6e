"""How much of a mix of requests finds room, by where vGPUs are put: once, and over time.

All policies of `core/packing` on the same requests, whose mixes are below. "lowest" assumes what
NVIDIA's driver does in mixed-size mode: a vGPU gets the lowest free slot of its size, and only the
GPU can be chosen. "chosen" assumes that the slot can be chosen too; on vendor-specific VFIO that is
not proved.
"""

from __future__ import annotations

import time

from support.report import arguments, header, table

from laneway.core.packing.churn import Mix, Served, by_policy, churn, fill
from laneway.core.packing.policy import Policy, aware, breadth, depth
from laneway.core.packing.room import Board, board_of
from laneway.core.vgpu.card import card_of

BOARDS = {
    "H100 80 GB": ("2331", {4: 15, 5: 10, 8: 15, 10: 20, 16: 10, 20: 20, 40: 10}),
    "L40S": ("26b9", {4: 30, 6: 15, 8: 20, 12: 15, 16: 5, 24: 15}),
    "RTX PRO 6000": ("2bb5", {3: 5, 4: 15, 8: 25, 12: 20, 16: 10, 24: 15, 32: 3, 48: 7}),
}
"""PCI device id, and how many of a hundred requests have each size in GiB."""


def weights_of(board: Board, mix: dict[int, int]) -> tuple[float, ...]:
    return tuple(float(mix.get(kind.framebuffer_mib // 1024, 0)) for kind in board.kinds)


COLUMNS: list[tuple[str, bool, Policy, bool]] = [
    ("same, breadth", False, breadth, True),
    ("same, depth", False, depth, True),
    ("mixed, breadth", True, breadth, True),
    ("mixed, depth", True, depth, True),
    ("aware, lowest", True, aware, True),
    ("aware, chosen", True, aware, False),
]
"""Title, whether sizes are mixed, policy, whether the driver takes the lowest slot."""


def mean(results: list[float]) -> float:
    return sum(results) / len(results)


def shown(results: list[Served]) -> str:
    memory, large = mean([one.memory for one in results]), mean([one.large for one in results])
    return f"{memory:.3f} ({large:.2f})"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--arrivals", type=int, default=5000, help="counted, per seed")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--sequences", type=int, default=200, help="of requests until full")
    asked = parser.parse_args()
    header()
    fills: list[list[str]] = []
    over_time: list[list[str]] = []
    titles: list[str] = []
    for name, (device, requests) in BOARDS.items():
        boards = {mixed: board_of(card_of(device), mixed=mixed) for mixed in (False, True)}
        weights = weights_of(boards[True], requests)
        rows: tuple[list[str], list[str]] = ([name], [name])
        titles = []
        for title, mixed, policy, lowest in COLUMNS:
            decide = by_policy(boards[mixed], policy, lowest=lowest)
            once = [
                fill(boards[mixed], Mix(weights, gpus=16), decide, seed=seed)
                for seed in range(asked.sequences)
            ]
            began = time.process_time()
            served = [
                churn(boards[mixed], Mix(weights), decide, seed=seed, arrivals=asked.arrivals)
                for seed in range(asked.seeds)
            ]
            spent = (time.process_time() - began) / asked.seeds / (asked.arrivals + 1000)
            rows[0].append(f"{mean(once):.3f}")
            rows[1].append(f"{shown(served)} {spent * 1e6:.0f}")
            titles.append(title)
        fills.append(rows[0])
        over_time.append(rows[1])
    table("Until as much was requested as there is, 16 GPUs: in use", ["board", *titles], fills)
    table(
        "Over time, 8 GPUs, load 0.8: share of GiB (of requests for half a GPU or more), "
        "us of CPU per request",
        ["board", *titles],
        over_time,
    )


if __name__ == "__main__":
    main()
