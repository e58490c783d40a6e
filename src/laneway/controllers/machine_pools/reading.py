"""What objects of a Rancher management cluster say of machine pools, and what is wrong with them.

A pool whose objects have mistakes is not judged: what its machines are to have is not known. Its
mistakes are told with the name of the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from laneway.core.ledger.facts import Consumer, Demand, Phase
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools import affinity, compute
from laneway.core.machine_pools.compute import GIB, MIB, Overcommit, Size
from laneway.core.machine_pools.device_info import (
    HOST_DEVICES,
    VGPUS,
    DeviceInfo,
    DeviceInfoError,
    Form,
    read,
)
from laneway.core.machine_pools.pool import Machine, Pool
from laneway.core.phrases import quoted
from laneway.kube.rancher import MachineConfig, MachinePool, RollingUpdate

_COUNT = re.compile(r"[0-9]{1,9}")
_SHARE = re.compile(r"([0-9]{1,9})%")
_CPUS, _MEMORY = 2, 4
"""Harvester's defaults."""
MOST_MACHINES = 100_000


class Problem(NamedTuple):
    """Something that is wrong with the objects of a pool."""

    field: str
    words: str

    def __str__(self) -> str:
        return self.words if self.words.startswith(self.field) else f"{self.field}: {self.words}"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine configuration says."""

    vgpus: DeviceInfo = DeviceInfo()
    host_devices: DeviceInfo = DeviceInfo()
    namespace: str = "default"
    """Of the VMs."""
    size: Size = Size(_CPUS, _MEMORY * GIB)
    terms: tuple[affinity.Term, ...] | None = None
    """About the node; None: any."""

    @property
    def devices(self) -> dict[str, int]:
        """How many of each resource a machine has."""
        found = dict(self.vgpus.counts)
        for resource, count in self.host_devices.counts.items():
            found[resource] = found.get(resource, 0) + count
        return found


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """What there is already of a pool, and how it is to be counted."""

    machines: tuple[Consumer, ...] = ()
    replaced: frozenset[Consumer] = frozenset()
    """Those that are as the pool no longer wants its machines."""
    needs: Mapping[Consumer, Mapping[str, int]] = {}
    """The CPU and memory that their pods request, where that is known."""
    overcommit: Overcommit = compute.DEFAULT


NOTHING = Existing()


def read_config(config: MachineConfig) -> tuple[Asked, tuple[Problem, ...]]:
    """What a machine configuration says, and what is wrong with it."""
    problems: list[Problem] = []

    def devices(form: Form, text: str) -> DeviceInfo:
        try:
            return read(form, text)
        except DeviceInfoError as error:
            problems.append(Problem(form.field, str(error)))
            return DeviceInfo()

    def number(field: str, value: str | int, default: int) -> int:
        text = str(value).strip()
        if text in ("", "-1"):
            return default
        if _COUNT.fullmatch(text) is None:
            problems.append(Problem(field, f"{quoted(text)} is not a number"))
            return default
        return int(text)

    try:
        terms = affinity.read(config.vm_affinity)
    except affinity.AffinityError as error:
        problems.append(Problem("vmAffinity", str(error)))
        terms = None
    vgpus = devices(VGPUS, config.vgpu_info)
    host_devices = devices(HOST_DEVICES, config.host_device_info)
    asked = Asked(
        vgpus=vgpus,
        host_devices=host_devices,
        namespace=config.vm_namespace or "default",
        terms=terms,
        size=Size(
            cpus=number("cpuCount", config.cpu_count, _CPUS),
            memory=number("memorySize", config.memory_size, _MEMORY) * GIB,
            reserved=number("reservedMemorySize", config.reserved_memory_size, compute.RESERVED_MIB)
            * MIB,
            pinned=config.cpu_pinning,
            devices=bool(vgpus.entries or host_devices.entries),
        ),
    )
    return asked, tuple(problems)


def pool_of(
    pool: MachinePool, asked: Asked, ledger: Ledger, existing: Existing = NOTHING
) -> tuple[Pool, tuple[Problem, ...]]:
    """A pool as it is judged, and what is wrong with its entry in the cluster."""
    rolling = pool.rolling_update or RollingUpdate()
    cpu, memory = compute.requested(asked.size, existing.overcommit)
    labels = {name: node.labels for name, node in ledger.nodes.items()}
    found = Pool(
        name=pool.name,
        quantity=max(min(pool.desired, MOST_MACHINES), 0),
        devices=asked.devices,
        cpu=cpu,
        memory=memory,
        surge=_share(rolling.max_surge, pool.desired, 1, math.ceil),
        unavailable=_share(rolling.max_unavailable, pool.desired, 0, math.floor),
        nodes=None if asked.terms is None else affinity.nodes(asked.terms, labels),
        machines=tuple(
            Machine(
                vm,
                stays=vm not in existing.replaced and dict(demand.requests) == asked.devices,
                placed=bool(demand.node) or demand.phase is Phase.STOPPED,
                created=demand.created,
                needs=existing.needs.get(vm, {}),
            )
            for vm, demand in _known(ledger, existing.machines)
        ),
    )
    return found, tuple(mistakes_of(pool))


def mistakes_of(pool: MachinePool) -> Iterator[Problem]:
    """What is wrong with a pool's entry in its cluster."""
    if not 0 <= pool.desired <= MOST_MACHINES:
        yield Problem("quantity", f"{pool.desired} is not a number of 0 to {MOST_MACHINES}")
    rolling = pool.rolling_update or RollingUpdate()
    for field, value in (
        ("rollingUpdate.maxSurge", rolling.max_surge),
        ("rollingUpdate.maxUnavailable", rolling.max_unavailable),
    ):
        if value is not None and not _is_share(value):
            yield Problem(field, f"{quoted(str(value))} is neither a number nor a percentage")


def _is_share(value: int | str) -> bool:
    text = str(value)
    return _COUNT.fullmatch(text) is not None or _SHARE.fullmatch(text) is not None


def _share(
    value: int | str | None, quantity: int, default: int, rounded: Callable[[float], int]
) -> int:
    if value is None or not _is_share(value):
        return default
    if share := _SHARE.fullmatch(str(value)):
        return rounded(quantity * int(share[1]) / 100)
    return int(value)


def _known(ledger: Ledger, machines: Iterable[Consumer]) -> Iterator[tuple[Consumer, Demand]]:
    for vm in machines:
        if (demand := ledger.demands.get(vm)) is not None:
            yield vm, demand
