"""What is free in a fleet while VMs take from it, node by node: where each of them goes.

A node serves all devices of a VM or none. On one node so many ways to place a VM are tried, the
best first, and then no more.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.core.fleet import containers
from laneway.core.fleet.effort import Effort
from laneway.core.fleet.model import Fleet, Gpu, Node, Vm
from laneway.core.fleet.placing import rank, room_for, shape_of, take
from laneway.core.fleet.shape import How, Shape, Taken
from laneway.core.names import is_vgpu_resource
from laneway.core.vgpu.profiles import framebuffer_mib

TRIED = 20_000
"""Ways to place one VM on one node, after which the search ends without one."""


class Got(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a VM that is placed."""

    resource: str
    gpu: str = ""
    """The GPU of a vGPU; empty for any other device."""
    profile: str = ""
    slot: int | None = None
    how: str = ""
    """`exists`, `made`, or `made in place of free vGPUs`; empty for any other device."""


Spot = tuple[str, tuple[Got, ...]]
_Pick = tuple[str, int, Taken | None]
"""A resource, the GPU by number, and what it takes; -1 and None for a device that is no vGPU."""
_Cost = tuple[float, ...]


Alike = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]


def alike(vm: Vm) -> Alike:
    """The same for VMs that request the same of the same nodes."""
    return tuple(sorted(vm.requests.items())), tuple(sorted(vm.selector.items()))


class _Wants(NamedTuple):
    """The devices of a VM."""

    vgpus: list[str]
    """One by one, the largest first."""
    others: Counter[str]

    @classmethod
    def of(cls, vm: Vm) -> _Wants:
        vgpus = Counter({one: n for one, n in vm.requests.items() if is_vgpu_resource(one)})
        ordered = sorted(vgpus.elements(), key=lambda name: (-_size(name), name))
        return cls(ordered, Counter(vm.requests) - vgpus)


class Room:
    """What is free, while VMs take from it."""

    def __init__(self, fleet: Fleet, before: Room | None = None, effort: float = math.inf) -> None:
        """`before`: of another moment, nothing taken; GPUs that are the same are not read again.

        `effort`: nodes, and ways to place a VM on one, that may be looked at. More of them raise
        TooLongError.
        """
        self.effort = Effort(effort)
        self.fleet = fleet
        self.shapes: list[Shape]
        """Of each GPU."""
        self.by_node: Mapping[str, Sequence[int]]
        """The numbers of the GPUs of a node."""
        if before is not None and before.fleet.gpus is fleet.gpus:
            self.shapes, self.by_node = before.shapes.copy(), before.by_node
        else:
            self.shapes = _shapes(fleet.gpus, before)
            by_node: defaultdict[str, list[int]] = defaultdict(list)
            for number, gpu in enumerate(fleet.gpus):
                by_node[gpu.node].append(number)
            self.by_node = by_node
        self.free: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Other devices, and GPU instances for containers, by node and resource."""
        for device in fleet.devices:
            if not device.holder and not device.unhealthy:
                self.free[device.node][device.resource] += 1
        for node, instances in containers.free(fleet).items():
            self.free[node] += instances

    def place_all(self, vms: Sequence[Vm]) -> Iterator[tuple[Vm, Spot | None]]:
        """Where each of them goes, the largest first; what they take is gone."""
        groups: dict[Alike, list[Vm]] = {}
        for vm in vms:
            groups.setdefault(alike(vm), []).append(vm)
        for group in sorted(groups.values(), key=lambda group: -_memory(group[0])):
            yield from self._place_alike(group)

    def _place_alike(self, vms: list[Vm]) -> Iterator[tuple[Vm, Spot | None]]:
        """After each only the node that took it is looked at again."""
        wants = _Wants.of(vms[0])
        heap: list[tuple[_Cost, int, str, tuple[_Pick, ...]]] = []
        for number, node in enumerate(self.fleet.nodes):
            self.effort.look()
            if not excluded(node, vms[0]):
                self._offer(heap, number, node.name, wants)
        for vm in vms:
            if not heap:
                yield vm, None
                continue
            _, number, node_name, picks = heapq.heappop(heap)
            yield vm, (node_name, tuple(self._commit(node_name, picks)))
            self._offer(heap, number, node_name, wants)

    def _offer(
        self,
        heap: list[tuple[_Cost, int, str, tuple[_Pick, ...]]],
        number: int,
        node: str,
        wants: _Wants,
    ) -> None:
        picks = self._on_node(node, wants)
        if picks is not None:
            cost = rank(*(taken for _, _, taken in picks if taken))
            heapq.heappush(heap, (cost, number, node, picks))

    def _on_node(self, node: str, wants: _Wants) -> tuple[_Pick, ...] | None:
        """How a node can serve all of a VM's devices; None: it cannot."""
        vgpus, others = wants
        if others and any(self.free[node][name] < count for name, count in others.items()):
            return None
        found: list[_Pick] | None
        if len(vgpus) == 1:  # By far the most VMs: the best place is the answer.
            found = self._cheapest(node, vgpus[0])
        else:
            there = {one: self.shapes[one] for one in self.by_node[node]}
            found = _searched(there, vgpus, self.effort)
        if found is None or not others:
            return found if found is None else tuple(found)
        return (*found, *((name, -1, None) for name in others.elements()))

    def _cheapest(self, node: str, resource: str) -> list[_Pick] | None:
        """The GPU of a node where one more vGPU costs least; of equal ones the first."""
        shapes, best, gpu = self.shapes, None, -1
        for number in self.by_node[node]:
            option = _option(shapes[number], resource)
            if option and (best is None or option[0] < best[0]):
                best, gpu = option, number
        return None if best is None else [(resource, gpu, best[1])]

    def _commit(self, node: str, picks: Iterable[_Pick]) -> Iterator[Got]:
        for resource, number, taken in picks:
            if taken is None:
                self.free[node][resource] -= 1
                yield Got(resource=resource)
                continue
            self.shapes[number] = taken.shape
            yield Got(
                resource=resource,
                gpu=self.fleet.gpus[number].name,
                profile=taken.profile,
                slot=taken.start,
                how=_HOW[taken.how],
            )

    def totals(self, resources: Iterable[str]) -> dict[str, int]:
        """How many of each resource VMs could get on open nodes, if it were the only one."""
        nodes = [node.name for node in self.fleet.nodes if not node.closed]
        shapes = Counter(self.shapes[one] for node in nodes for one in self.by_node[node])
        free: Counter[str] = Counter()
        for node in nodes:
            if node in self.free:
                free.update(self.free[node])
        found = {}
        for resource in resources:
            found[resource] = free[resource]
            if is_vgpu_resource(resource):
                rooms = (room_for(shape, resource) * many for shape, many in shapes.items())
                found[resource] += sum(rooms)
        return found


def _options(there: Mapping[int, Shape], resource: str) -> list[tuple[_Cost, int, Taken]]:
    """On which GPUs of a node one more vGPU can be, at what cost; of equal ones the first."""
    options: dict[Shape, tuple[_Cost, int, Taken]] = {}
    for number, shape in there.items():
        if shape not in options and (found := _option(shape, resource)):
            options[shape] = found[0], number, found[1]
    return list(options.values())


@lru_cache(maxsize=65536)
def _option(shape: Shape, resource: str) -> tuple[_Cost, Taken] | None:
    taken = take(shape, resource)
    return (rank(taken), taken) if taken else None


def _searched(there: dict[int, Shape], vgpus: Sequence[str], effort: Effort) -> list[_Pick] | None:
    """Where several vGPUs can be together; every way is tried, the best first."""
    picks: list[_Pick] = []
    before: list[Shape] = []
    """What each pick has changed."""
    untried: list[Iterator[tuple[_Cost, int, Taken]]] = []
    """Of each vGPU up to the next."""
    tried = 0
    while len(picks) < len(vgpus):
        vgpu = vgpus[len(picks)]
        if len(untried) == len(picks):
            untried.append(iter(sorted(_options(there, vgpu))))
        option = next(untried[-1], None)
        if option is None:
            untried.pop()
            if not picks:
                return None
            _, number, _ = picks.pop()
            there[number] = before.pop()
            continue
        tried += 1
        effort.look()
        if tried > TRIED:
            return None
        _, number, taken = option
        picks.append((vgpu, number, taken))
        before.append(there[number])
        there[number] = taken.shape
    return picks


def _shapes(gpus: Sequence[Gpu], before: Room | None) -> list[Shape]:
    """Of each GPU; equal ones are one object, which makes them quick to compare."""
    known: dict[int, Shape] = {}
    if before is not None:
        known = {
            id(gpu): shape for gpu, shape in zip(before.fleet.gpus, before.shapes, strict=True)
        }
    shapes: dict[Shape, Shape] = {}
    found = []
    for gpu in gpus:
        shape = known.get(id(gpu)) or shape_of(gpu)
        found.append(shapes.setdefault(shape, shape))
    return found


_HOW = {
    How.EXISTS: "exists",
    How.MADE: "made",
    How.MADE_IN_PLACE_OF_FREE: "made in place of free vGPUs",
}


def excluded(node: Node, vm: Vm) -> bool:
    """Whether a node is closed, or lacks a label that the VM selects nodes by."""
    if node.closed or not vm.selector:
        return bool(node.closed)
    return not vm.selector.items() <= node.labels.items()


def _memory(vm: Vm) -> int:
    return sum(_size(name) * count for name, count in vm.requests.items())


def _size(resource: str) -> int:
    return framebuffer_mib(resource.rpartition("_")[2]) if is_vgpu_resource(resource) else 0
