"""What is free in a fleet while VMs take from it, node by node: where each goes, and why not.

A node serves all devices of a VM or none. On one node so many ways to place a VM are tried, the
best first, and then no more.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.core.fleet import backed, containers, placing
from laneway.core.fleet.model import Fleet, Gpu, Node, Vm
from laneway.core.fleet.placing import How, Shape, Taken, offered, rank, resource_of
from laneway.core.gpu.modes import Mode
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import few
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

    def __init__(self, fleet: Fleet, before: Room | None = None) -> None:
        """`before`: of another moment, nothing taken; GPUs that are the same are not read again."""
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
        self._free: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for device in fleet.devices:
            if not device.holder and not device.unhealthy:
                self._free[device.node][device.resource] += 1
        for node, instances in containers.free(fleet).items():
            self._free[node] += instances

    def place_all(self, vms: Sequence[Vm]) -> Iterator[tuple[Vm, Spot | None]]:
        """Where each of them goes, the largest first; what they take is gone."""
        alike: dict[tuple[tuple[str, int], ...], list[Vm]] = {}
        for vm in vms:
            key = (
                *sorted(vm.requests.items()),
                *((k + "\0" + v, 0) for k, v in vm.selector.items()),
            )
            alike.setdefault(key, []).append(vm)
        for group in sorted(alike.values(), key=lambda group: -_memory(group[0])):
            yield from self._place_alike(group)

    def _place_alike(self, vms: list[Vm]) -> Iterator[tuple[Vm, Spot | None]]:
        """After each only the node that took it is looked at again."""
        wants = _Wants.of(vms[0])
        heap: list[tuple[_Cost, int, str, tuple[_Pick, ...]]] = []
        for number, node in enumerate(self.fleet.nodes):
            if not _excluded(node, vms[0]):
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
        if others and any(self._free[node][name] < count for name, count in others.items()):
            return None
        there = {number: self.shapes[number] for number in self.by_node[node]}
        found: list[_Pick] | None
        if len(vgpus) == 1:  # By far the most VMs: the best place is the answer.
            best = min(_options(there, vgpus[0]), default=None)
            found = [(vgpus[0], best[1], best[2])] if best else None
        else:
            found = _searched(there, vgpus)
        if found is None or not others:
            return found if found is None else tuple(found)
        return (*found, *((name, -1, None) for name in others.elements()))

    def _commit(self, node: str, picks: Iterable[_Pick]) -> Iterator[Got]:
        for resource, number, taken in picks:
            if taken is None:
                self._free[node][resource] -= 1
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
            if node in self._free:
                free.update(self._free[node])
        found = {}
        for resource in resources:
            found[resource] = free[resource]
            if is_vgpu_resource(resource):
                rooms = (_room_for(shape, resource) * many for shape, many in shapes.items())
                found[resource] += sum(rooms)
        return found

    def why_not(self, vm: Vm) -> str:
        """Why no node has room for a VM."""
        open_nodes = [node for node in self.fleet.nodes if not _excluded(node, vm)]
        if not open_nodes:
            return self._no_node(vm)
        lacking = []
        for resource, count in sorted(vm.requests.items()):
            most = max(self._most_on(node, resource) for node in open_nodes)
            if most < count:
                lacking.append(f"{count} x {resource}: {self._lack(open_nodes, resource, most)}")
        if lacking:
            return "; ".join(lacking)
        return "no node has room for all of its devices at once. Request fewer per VM"

    def _no_node(self, vm: Vm) -> str:
        asked = ", ".join(f"{key}={value}" for key, value in sorted(vm.selector.items()))
        closed = [f"{node.name} ({node.closed})" for node in self.fleet.nodes if node.closed]
        if asked and len(closed) < len(self.fleet.nodes):
            return f"no open node has the labels {asked}"
        return f"no node is open: {few(closed)}"

    def _most_on(self, node: Node, resource: str) -> int:
        vgpus = sum(_room_for(self.shapes[one], resource) for one in self.by_node[node.name])
        return vgpus + self._free[node.name][resource]

    def _lack(self, nodes: Sequence[Node], resource: str, most: int) -> str:
        if most:
            return f"the node with the most room has room for {most}"
        shapes = [self.shapes[one] for node in nodes for one in self.by_node[node.name]]
        if not is_vgpu_resource(resource):
            return "no node has a free one"
        reasons = Counter(_reason(shape, resource) for shape in shapes)
        reasons.pop("", None)
        if not reasons:
            return "no GPU of an open node has this profile"
        return "; ".join(
            f"{count} GPU{'s' if count != 1 else ''} {words}"
            for words, count in sorted(reasons.items())
        )


def _options(there: Mapping[int, Shape], resource: str) -> list[tuple[_Cost, int, Taken]]:
    """On which GPUs of a node one more vGPU can be, at what cost; of equal ones the first."""
    options: dict[Shape, tuple[_Cost, int, Taken]] = {}
    for number, shape in there.items():
        if shape not in options and (found := _option(shape, resource)):
            options[shape] = found[0], number, found[1]
    return list(options.values())


@lru_cache(maxsize=65536)
def _option(shape: Shape, resource: str) -> tuple[_Cost, Taken] | None:
    of_mode = backed if shape.mode == Mode.MIG_BACKED else placing
    taken: Taken | None = of_mode.take(shape, resource)
    return (rank(taken), taken) if taken else None


def _searched(there: dict[int, Shape], vgpus: Sequence[str]) -> list[_Pick] | None:
    """Where several vGPUs can be together; every way is tried, the best first."""
    tried = 0

    def go(at: int) -> list[_Pick] | None:
        nonlocal tried
        if at == len(vgpus):
            return []
        for _, number, taken in sorted(_options(there, vgpus[at])):
            tried += 1
            if tried > TRIED:
                return None
            before, there[number] = there[number], taken.shape
            rest = go(at + 1)
            if rest is not None:
                return [(vgpus[at], number, taken), *rest]
            there[number] = before
        return None

    return go(0)


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
        shape = known.get(id(gpu)) or _shape_of(gpu)
        found.append(shapes.setdefault(shape, shape))
    return found


def _shape_of(gpu: Gpu) -> Shape:
    return backed.shape_of(gpu) if gpu.mode == Mode.MIG_BACKED else placing.shape_of(gpu)


def _room_for(shape: Shape, resource: str) -> int:
    if shape.mode == Mode.MIG_BACKED:
        return backed.room_for(shape, resource)
    return placing.room_for(shape, resource)


_HOW = {
    How.EXISTS: "exists",
    How.MADE: "made",
    How.MADE_IN_PLACE_OF_FREE: "made in place of free vGPUs",
}


def _reason(shape: Shape, resource: str) -> str:
    """Why a GPU has no room for a profile; empty where its board does not have the profile."""
    is_sliced = any(resource_of(name) == resource for name in shape.card.kinds)
    if shape.claimed and (is_sliced or backed.lack(shape, resource)):
        return "in use as a whole"
    if not is_sliced:
        return backed.lack(shape, resource)
    profile = offered(shape, resource)
    if not profile:
        return f"in mode {shape.mode}, which has no such vGPUs"
    kinds = shape.card.kinds
    held = {kinds[one.profile].framebuffer_mib for one in shape.kept if one.profile in kinds}
    if shape.mode != "MixedSize" and held - {kinds[profile].framebuffer_mib}:
        return "with vGPUs of another size in use, in mode SameSize"
    free = shape.card.region * 1024 - sum(
        kinds[one.profile].framebuffer_mib for one in shape.kept if one.profile in kinds
    )
    if free >= kinds[profile].framebuffer_mib:
        return "with enough free memory, but not in one piece where the profile can be placed"
    return "with too little free memory"


def _excluded(node: Node, vm: Vm) -> bool:
    if node.closed or not vm.selector:
        return bool(node.closed)
    return not vm.selector.items() <= node.labels.items()


def _memory(vm: Vm) -> int:
    return sum(_size(name) * count for name, count in vm.requests.items())


def _size(resource: str) -> int:
    return framebuffer_mib(resource.rpartition("_")[2]) if is_vgpu_resource(resource) else 0
