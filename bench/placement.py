"""How long it takes to say what fits on one GPU, worked out again and not remembered.

Random desired states for mixed sizes that are one vGPU more than an empty card takes, which are the
hardest to judge: in which order they can be made, if at all, in addition to some that are there
(`arrange`). And how many more of every profile fit (`still_fits`). The worst of the latter reads
the catalogue first.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from support.report import arguments, header, ms, percentile, table

from laneway.core.gpu.modes import GpuModes
from laneway.core.vgpu import capacity
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.placement import Carried, arrange
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec

MODELS = ("a2", "l40s", "a100", "hgx-h100", "rtx-pro-6000")


def one_too_many(card: Card, names: Sequence[str], luck: random.Random) -> Counter[str]:
    """Profiles drawn until the last one does not fit any more."""
    wanted: Counter[str] = Counter()
    while True:
        more = wanted + Counter([luck.choice(names)])
        if arrange(card, (), more, mixed=True) is None:
            return more
        wanted = more


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(model: str, desired_states: int, luck: random.Random) -> list[str]:
    inventory = scan(build(parse_spec(model), "node"))
    gpu = next(one for one in inventory.functions if one.sriov_gpu)
    functions = inventory.vgpus_of(gpu.address)
    names = sorted({kind.name for one in functions for kind in one.creatable})
    card = card_of(gpu.device, names)
    orders, rooms = [], []
    for _ in range(desired_states):
        wanted = one_too_many(card, names, luck)
        there = tuple(Carried(name) for name in sorted(wanted)[:3])
        orders.append(timed(lambda w=wanted, t=there: arrange(card, t, w, mixed=True)))
        capacity._counts.cache_clear()  # noqa: SLF001 - what is remembered costs nothing
        mixed = GpuModes(mixed_size=luck.random() < 0.5)
        rooms.append(timed(lambda m=mixed: capacity.still_fits(gpu, functions, m)))
    numbers = (ms(percentile(times, p)) for times in (orders, rooms) for p in (50, 99, 100))
    return [model, str(len(names)), *numbers]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--desired-states", type=int, default=300, help="per model")
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    header()
    luck = random.Random(asked.seed)
    head = ["model", "profiles", "order p50", "p99", "worst", "room p50", "p99", "worst"]
    rows = [measure(model, asked.desired_states, luck) for model in MODELS]
    table("One GPU, mixed sizes, in ms", head, rows)


if __name__ == "__main__":
    main()
