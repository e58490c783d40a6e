"""How long it takes to judge one write of machine pools, as the webhook for them does.

There are some guest clusters with three pools each, of which one has GPUs and one still waits for a
machine, on a Harvester cluster that has other VMs, too. All writes wait while one is
judged. Memory is what the clusters, their configurations and Harvester's supply take together.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from support.memory import resident
from support.report import arguments, header, ms, percentile, table

from laneway.api import decode
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.controllers.machine_pools.writes.case import Harvester, Outcome
from laneway.controllers.machine_pools.writes.clusters import of_cluster
from laneway.controllers.machine_pools.writes.configs import of_config
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
from laneway.kube import rancher
from laneway.kube.rancher import GuestCluster, MachineConfig

PROFILES = tuple(f"nvidia.com/NVIDIA_A2-{size}Q" for size in (1, 2, 4, 8))
VGPUS, POOLS = 16, ("cp", "cpu", "gpu")
KIND = rancher.HARVESTER_CONFIGS.kind
GIB = 2**30


class One:
    """The only Harvester cluster."""

    def __init__(self, supply: Supply) -> None:
        self._found = Harvester("default", supply)

    def of(self, _credential: str) -> Harvester:
        return self._found

    def all(self) -> Sequence[Harvester]:
        return [self._found]


def config(name: str, resource: str = "", count: int = 1) -> MachineConfig:
    entries = [{"name": "provisioned", "deviceName": resource}] * count if resource else []
    fields = {"vgpuInfo": json.dumps({"vGPURequests": entries}), "memorySize": "8"}
    meta = {"name": name, "namespace": "fleet-default"}
    return decode(MachineConfig, msgspec.json.encode({"metadata": meta, **fields}))


def guest(name: str, **pools: int) -> GuestCluster:
    listed: list[Any] = [
        {
            "name": pool,
            "quantity": quantity,
            "machineConfigRef": {"kind": KIND, "name": f"nc-{name}-{pool}"},
        }
        for pool, quantity in pools.items()
    ]
    meta = {"name": name, "namespace": "fleet-default"}
    spec = {"rkeConfig": {"machinePools": listed}}
    return decode(GuestCluster, msgspec.json.encode({"metadata": meta, "spec": spec}))


def everything(
    clusters: int, nodes: int, machines: int, luck: random.Random
) -> tuple[Managed, Supply]:
    """Guest clusters with 10 machines in each pool, and VMs of others up to that number."""
    names = [f"node-{number:04d}" for number in range(nodes)]
    free = {node: [f"{node}-{number}" for number in range(VGPUS)] for node in names}
    owners: dict[str, Consumer] = {}
    demands = []

    def machine(name: str, resource: str, labels: dict[str, str]) -> None:
        vm, node = Consumer(ConsumerKind.VM, "default", name), luck.choice(names)
        while resource and not (kind_of(node) == resource and free[node]):
            node = luck.choice(names)
        if resource:
            owners[free[node].pop()] = vm
        requests = {resource: 1} if resource else {}
        demands.append(Demand(vm, Phase.RUNNING, requests, node=node, labels=labels))

    def kind_of(node: str) -> str:
        return PROFILES[int(node[-4:]) % len(PROFILES)]

    found, configs = [], {}
    for number in range(clusters):
        name = f"guest-{number}"
        found.append(guest(name, cp=3, cpu=10, gpu=11))
        for pool in POOLS:
            resource = kind_of(luck.choice(names)) if pool == "gpu" else ""
            title = f"nc-{name}-{pool}"
            configs[KIND, "fleet-default", title] = config(title, resource)
            labels = {rancher.LABEL_GUEST_CLUSTER: name, rancher.LABEL_POOL: pool}
            for one in range(3 if pool == "cp" else 10):
                machine(f"{name}-{pool}-{one}", resource, labels)
    for number in range(machines - len(demands)):
        machine(f"vm-{number:05d}", "", {})
    devices = tuple(
        DeviceFact(node, kind_of(node), name, owner=owners.get(name))
        for node in names
        for name in (f"{node}-{number}" for number in range(VGPUS))
    )
    facts = tuple(NodeFact(name, {LABEL_HOSTNAME: name}) for name in names)
    supply = Supply(
        ledger=build(Facts(devices, tuple(demands), facts)),
        free={name: {"cpu": 32_000, "memory": 256 * GIB} for name in names},
        needs={one.consumer: {"cpu": 125, "memory": 8 * GIB} for one in demands},
    )
    return Managed(clusters=tuple(found), configs=configs), supply


def writes(managed: Managed, supply: Supply) -> dict[str, Callable[[], Outcome]]:
    """Some that pass, and some that do not."""
    harvesters, old = One(supply), managed.clusters[0]
    name = old.metadata.name
    title = f"nc-{name}-gpu"
    before = managed.configs[KIND, "fleet-default", title]
    [resource] = {one["deviceName"] for one in json.loads(before.vgpu_info)["vGPURequests"]}
    more = config(title, resource, count=2)
    return {
        "a pool scaled by one": lambda: of_cluster(
            old, guest(name, cp=3, cpu=10, gpu=12), managed, harvesters
        ),
        "a pool scaled to 10,000": lambda: of_cluster(
            old, guest(name, cp=3, cpu=10, gpu=10_000), managed, harvesters
        ),
        "all three pools scaled": lambda: of_cluster(
            old, guest(name, cp=5, cpu=20, gpu=15), managed, harvesters
        ),
        "a second device for each machine": lambda: of_config(
            KIND, before, more, managed, harvesters
        ),
        "a pool scaled down": lambda: of_cluster(
            old, guest(name, cp=3, cpu=10, gpu=5), managed, harvesters
        ),
    }


def measure(clusters: int, nodes: int, machines: int, rounds: int, luck: random.Random) -> None:
    gc.collect()
    before = resident()
    managed, supply = everything(clusters, nodes, machines, luck)
    gc.collect()
    grown = resident() - before
    rows = []
    for name, write in writes(managed, supply).items():
        taken = []
        for _ in range(rounds):
            began = time.perf_counter()
            outcome = write()
            taken.append(time.perf_counter() - began)
        numbers = (ms(percentile(taken, percent)) for percent in (50, 99))
        said = f"{len(outcome.refusals)} + {len(outcome.warnings)}"
        rows.append([name, *numbers, ms(max(taken)), said])
    title = (
        f"{clusters} guest clusters with {len(POOLS)} pools each, {nodes} nodes, {machines:,} VMs: "
        f"{grown:.0f} MB"
    )
    table(title, ["write, in ms", "p50", "p99", "worst", "refusals + warnings"], rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="of each write, per size")
    parser.add_argument("--seed", type=int, default=6)
    asked = parser.parse_args()
    header()
    luck = random.Random(asked.seed)
    for clusters, nodes, machines in ((2, 8, 80), (20, 100, 1000), (100, 1000, 10_000)):
        measure(clusters, nodes, machines, asked.rounds, luck)


if __name__ == "__main__":
    main()
