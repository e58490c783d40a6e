"""What a question of `laneway plan what-if` costs over a large fleet, in CPU time.

Every node has so many GPUs, which carry up to 16 vGPUs each, most of them held.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec
from support.report import arguments, header, table

from laneway.core.fleet.changes import AddVms, Change, LeaveNode
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Vgpu, Vm
from laneway.core.fleet.what_if import what_if

_PREFIX = "nvidia.com/NVIDIA_A40-"
_SIZES = {"3Q": 16, "6Q": 8, "12Q": 4, "24Q": 2}


def fleet_of(nodes: int, gpus: int, luck: random.Random) -> Fleet:
    """Each GPU has vGPUs of one profile, and four in five of them have a VM."""
    empty = made_up(f"{nodes}x a40*{gpus}")
    filled, vms = [], []
    for gpu in empty.gpus:
        profile = luck.choice(list(_SIZES))
        vgpus = []
        for number in range(luck.randint(0, _SIZES[profile])):
            holder = f"default/{gpu.name}-{number}" if luck.random() < 0.8 else ""
            name = f"NVIDIA A40-{profile}"
            vgpus.append(Vgpu(name=f"{gpu.name}-{number}", profile=name, holder=holder))
            if holder:
                vms.append(Vm(name=holder, node=gpu.node, requests={_PREFIX + profile: 1}))
        filled.append(msgspec.structs.replace(gpu, vgpus=tuple(vgpus)))
    return msgspec.structs.replace(empty, gpus=tuple(filled), vms=tuple(vms))


def cost(fleet: Fleet, asked: Sequence[Change], repeats: int) -> tuple[float, bool]:
    """Milliseconds of the quickest of several, and the answer."""
    best, yes = float("inf"), False
    for _ in range(repeats):
        began = time.process_time()
        yes = what_if(fleet, asked).yes
        best = min(best, time.process_time() - began)
    return best * 1000, yes


def main() -> None:
    parser = arguments(__doc__)
    for name, default in (("nodes", 1000), ("gpus", 8), ("repeats", 5), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    fleet = fleet_of(given.nodes, given.gpus, random.Random(given.seed))
    header()
    questions: dict[str, list[Change]] = {
        "1 VM": [AddVms(requests={_PREFIX + "12Q": 1})],
        "1 VM with 4 vGPUs": [AddVms(requests={_PREFIX + "12Q": 4})],
        "a pool of 100 VMs": [AddVms(requests={_PREFIX + "12Q": 1}, count=100)],
        "1 VM without room": [AddVms(requests={_PREFIX + "48Q": 8})],
        "10,000 VMs without room": [AddVms(requests={_PREFIX + "48Q": 8}, count=10_000)],
        "a node leaves": [LeaveNode(node=fleet.nodes[0].name)],
    }
    rows = []
    for words, asked in questions.items():
        took, yes = cost(fleet, asked, given.repeats)
        rows.append((words, f"{took:.0f}", "yes" if yes else "no"))
    title = f"{given.nodes} nodes x {given.gpus} GPUs, {len(fleet.vms)} VMs"
    table(title, ("question", "ms of CPU", "answer"), rows)


if __name__ == "__main__":
    main()
