"""How long it takes to make the ledger of a cluster, and to ask it.

Every node has so many GPUs of 16 vGPUs each, and virtual machines request one to three of them;
most run, some wait, some are stopped. Questions are of every kind: a machine for which there is
room, one that fits nowhere, pools, roll-outs, several resources at once. Memory is what the ledger
takes in addition to its facts.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from support.memory import resident
from support.report import arguments, header, middle, percentile, table

from kubebasics.timestamps import timestamp
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import LABEL_HOSTNAME, build
from laneway.core.ledger.facts import (
    Consumer,
    ConsumerKind,
    Demand,
    DeviceFact,
    Facts,
    NodeFact,
    Phase,
)
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import Request
from laneway.core.ledger.upkeep import Changes, Upkeep

PROFILES = tuple(f"nvidia.com/NVIDIA_A2-{size}Q" for size in (1, 2, 4))
VGPUS = 16


def cluster(nodes: int, gpus: int, machines: int, luck: random.Random) -> Facts:
    """Facts as a cluster would have them: a running VM with each of its devices."""
    names = [f"node-{n:04d}" for n in range(nodes)]
    free: dict[str, list[tuple[str, str]]] = {}
    for node in names:
        for gpu in range(gpus):
            resource = PROFILES[gpu % len(PROFILES)]
            free.setdefault(node, []).extend(
                (resource, f"{node}-0000{gpu:02x}00{vf}") for vf in range(VGPUS)
            )
    owners: dict[str, Consumer] = {}
    demands = []
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(machines):
        consumer = Consumer(ConsumerKind.VM, "default", f"vm-{number:05d}")
        phase = luck.choices(list(Phase), (7, 1, 2))[0]
        node = luck.choice(names)
        resource = luck.choice(PROFILES)
        wanted = [one for one in free[node] if one[0] == resource][: luck.randint(1, 3)]
        if phase is Phase.RUNNING:
            owners.update((name, consumer) for _, name in wanted)
        free[node] = [one for one in free[node] if one not in wanted]
        demands.append(
            Demand(
                consumer,
                phase,
                {resource: len(wanted)},
                node=node if phase is Phase.RUNNING else "",
                selector={LABEL_HOSTNAME: node} if number % 5 == 0 else {},
                last=tuple(name for _, name in wanted) if phase is Phase.STOPPED else (),
                created=timestamp(start + timedelta(seconds=number)),
                labels={"pool": f"pool-{number % 100}"},
            )
        )
    devices = tuple(
        DeviceFact(
            node,
            PROFILES[gpu % len(PROFILES)],
            name,
            "it is gone from the node" if luck.random() < 0.01 else "",
            owners.get(name),
        )
        for node in names
        for gpu in range(gpus)
        for vf in range(VGPUS)
        for name in [f"{node}-0000{gpu:02x}00{vf}"]
    )
    labels = {"kubernetes.io/os": "linux", "zone": "a"}
    facts = [NodeFact(name, {**labels, LABEL_HOSTNAME: name}) for name in names]
    return Facts(devices, tuple(demands), tuple(facts))


def questions(ledger: Ledger, luck: random.Random) -> Iterator[tuple[str, Request]]:
    first, second, third = PROFILES
    machines = sorted(ledger.demands)
    node = luck.choice(sorted(ledger.nodes))
    yield "one machine", Request(resources={first: luck.randint(1, 3)})
    yield "one that fits nowhere", Request(resources={first: 10_000})
    yield "on one node", Request(resources={second: 2}, nodes=(node,))
    yield "two resources", Request(resources={first: 1, second: 2, third: 1})
    yield "never on one node", Request(resources={first: 40, second: 40, third: 40})
    yield "pool of 50", Request(resources={second: 2}, vms=50)
    old = tuple(luck.sample(machines, 50))
    yield "roll-out of 50", Request(resources={third: 2}, vms=50, replacing=old, surge=1)


def measure(nodes: int, gpus: int, machines: int, rounds: int, luck: random.Random) -> None:
    gc.collect()
    start = resident()
    facts = cluster(nodes, gpus, machines, luck)
    gc.collect()
    before = resident()
    builds = []
    for _ in range(5):
        began = time.perf_counter()
        ledger = build(facts)
        builds.append(time.perf_counter() - began)
    grown = resident() - before
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for kind, request in questions(ledger, luck):
            began = time.perf_counter()
            can_start(ledger, request)
            times.setdefault(kind, []).append((time.perf_counter() - began) * 1e6)
    changes = _changes(facts, rounds, luck)
    stocks = len(ledger.stocks)
    title = (
        f"{nodes} nodes, {len(facts.devices):,} devices in {stocks:,} stocks, {machines:,} virtual "
        f"machines: made in {middle(builds):.3f} s (worst {max(builds):.3f}),\n"
        f"{grown:.0f} MB beside {before - start:.0f} MB of facts"
    )
    rows = [
        [kind, *(f"{percentile(found, percent):,.0f}" for percent in (50, 99))]
        for kind, found in (times | changes).items()
    ]
    table(title, ["question, in µs", "p50", "p99"], rows)


def _changes(facts: Facts, rounds: int, luck: random.Random) -> dict[str, list[float]]:
    """The processor time in µs that a ledger takes for the change of one device or node."""
    upkeep = Upkeep()
    devices = {device.name: device for device in facts.devices}
    demands = {demand.consumer: demand for demand in facts.demands}
    nodes = {node.name: node for node in facts.nodes or ()}
    upkeep.apply(Changes({**devices}, {**demands}, {**nodes}))
    names, places = list(devices), list(nodes)
    took: dict[str, list[float]] = {}

    def apply(what: str, changes: Changes) -> None:
        began = time.process_time()
        upkeep.apply(changes)
        took.setdefault(what, []).append((time.process_time() - began) * 1e6)

    for _ in range(rounds):
        device = devices[luck.choice(names)]
        unhealthy = "" if device.unhealthy else "it is gone from the node"
        device = devices[device.name] = msgspec.structs.replace(device, unhealthy=unhealthy)
        apply("one device changes", Changes({device.name: device}))
        node = nodes[luck.choice(places)]
        labels = {**node.labels, "rack": str(luck.random())}
        node = nodes[node.name] = msgspec.structs.replace(node, labels=labels)
        apply("one node is labelled", Changes(nodes={node.name: node}))
        closed = "" if node.closed else "the node is cordoned"
        node = nodes[node.name] = msgspec.structs.replace(node, closed=closed)
        apply("one node opens or closes", Changes(nodes={node.name: node}))
    return took


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="of all questions, per size")
    parser.add_argument("--seed", type=int, default=6)
    asked = parser.parse_args()
    header()
    luck = random.Random(asked.seed)
    for nodes, gpus, machines in ((3, 4, 50), (100, 8, 500), (1000, 8, 5000), (1000, 8, 20_000)):
        measure(nodes, gpus, machines, asked.rounds, luck)


if __name__ == "__main__":
    main()
