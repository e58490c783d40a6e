"""Whether a fleet has room after some changes: yes or no, where each VM goes, and why not.

The rule: a vGPU need not exist. Where a GPU's memory is free, the plan may make one, and it may
remove vGPUs that no VM has. What a VM has stays where it is; a stopped VM keeps its reserved vGPUs.
VMs are placed one after the other, those with the most memory first, each whole on one node. On one
node up to `_TRIED` ways to place a VM are tried. Over many VMs a no is what this order reaches;
another order may place more.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from laneway.core.fleet.changes import Change, carried_out
from laneway.core.fleet.model import Fleet, Node, Vm
from laneway.core.fleet.placing import (
    How,
    Shape,
    Taken,
    offered,
    rank,
    resource_of,
    room_for,
    shape_of,
    take,
)
from laneway.core.ledger.facts import Phase
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import few
from laneway.core.vgpu.profiles import framebuffer_mib

_TRIED = 20_000
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


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A VM, and where it goes."""

    vm: str
    node: str
    before: str = ""
    """Its node today; empty: it has none."""
    devices: tuple[Got, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """A VM that has no place, and why."""

    vm: str
    words: str


class Left(msgspec.Struct, frozen=True):
    """How many devices of a resource VMs could still get, if it were the only one."""

    resource: str
    today: int
    then: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question."""

    placed: tuple[Placement, ...] = ()
    refused: tuple[Refused, ...] = ()
    unchangeable: tuple[str, ...] = ()
    """Changes that are not possible, in words."""
    waiting: tuple[Refused, ...] = ()
    """VMs that wait for devices today, and would wait on."""
    left: tuple[Left, ...] = ()

    @property
    def yes(self) -> bool:
        return not (self.refused or self.unchangeable)


def what_if(fleet: Fleet, changes: Iterable[Change]) -> Answer:
    """The answer. Without changes it is about the VMs that wait today. Raises ChangeError."""
    asked = list(changes)
    after = carried_out(fleet, asked)
    today = _Room(fleet)
    room = _Room(after.fleet, today)
    known = {vm.name for vm in after.to_place}
    waiting = [vm for vm in _waiting(fleet) if vm.name not in known]
    wanted = {vm.name for vm in (after.to_place if asked else waiting)}
    before = {vm.name: vm.node for vm in fleet.vms}
    placed, refused = [], []
    # Those that wait had asked before any new VM; those that a change moves are running already.
    first = [vm for vm in after.to_place if vm.name in before]
    new = [vm for vm in after.to_place if vm.name not in before]
    for group in (first, waiting, new):
        for vm, spot in room.place_all(group):
            if spot is None:
                refused.append(Refused(vm.name, room.why_not(vm)))
            else:
                placed.append(
                    Placement(
                        vm=vm.name, node=spot[0], before=before.get(vm.name, ""), devices=spot[1]
                    )
                )
    resources = {name for vm in (*after.to_place, *waiting) for name in vm.requests}
    return Answer(
        placed=tuple(placed),
        refused=tuple(one for one in refused if one.vm in wanted),
        unchangeable=after.refused,
        waiting=tuple(one for one in refused if one.vm not in wanted),
        left=tuple(_left(today, room, sorted(resources))),
    )


def _waiting(fleet: Fleet) -> list[Vm]:
    """VMs that are to run and lack devices, the oldest first."""
    holders = {vgpu.holder for gpu in fleet.gpus for vgpu in gpu.vgpus}
    holders |= {device.holder for device in fleet.devices}
    found = [
        vm
        for vm in fleet.vms
        if vm.phase is Phase.PENDING and vm.name not in holders and any(vm.requests.values())
    ]
    return sorted(found, key=lambda vm: (vm.created, vm.name))


def _left(today: _Room, then: _Room, resources: Iterable[str]) -> Iterator[Left]:
    for resource in resources:
        yield Left(resource, today.total(resource), then.total(resource))


_Spot = tuple[str, tuple[Got, ...]]
_Pick = tuple[str, int, Taken | None]
"""A resource, the GPU by number, and what it takes; -1 and None for a device that is no vGPU."""
_Cost = tuple[float, ...]


class _Room:
    """What is free, while VMs take from it."""

    def __init__(self, fleet: Fleet, before: _Room | None = None) -> None:
        """`before`: of another moment; GPUs that are the same objects there are not read again."""
        self._fleet = fleet
        self.by_gpu: dict[int, Shape] = {}
        known = before.by_gpu if before else {}
        shapes: dict[Shape, Shape] = {}
        for gpu in fleet.gpus:
            shape = known.get(id(gpu)) or shape_of(gpu)
            self.by_gpu[id(gpu)] = shapes.setdefault(shape, shape)
        self._shapes = [self.by_gpu[id(gpu)] for gpu in fleet.gpus]
        self._gpus: defaultdict[str, list[int]] = defaultdict(list)
        for number, gpu in enumerate(fleet.gpus):
            self._gpus[gpu.node].append(number)
        self._free: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for device in fleet.devices:
            if not device.holder and not device.unhealthy:
                self._free[device.node][device.resource] += 1

    def place_all(self, vms: Sequence[Vm]) -> Iterator[tuple[Vm, _Spot | None]]:
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

    def _place_alike(self, vms: list[Vm]) -> Iterator[tuple[Vm, _Spot | None]]:
        """After each only the node that took it is looked at again."""
        wants = _wants(vms[0])
        heap: list[tuple[_Cost, int, str, tuple[_Pick, ...]]] = []
        for number, node in enumerate(self._fleet.nodes):
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
        wants: Sequence[str],
    ) -> None:
        picks = self._on_node(node, wants)
        if picks is not None:
            cost = rank(*(taken for _, _, taken in picks if taken))
            heapq.heappush(heap, (cost, number, node, picks))

    def _on_node(self, node: str, wants: Sequence[str]) -> tuple[_Pick, ...] | None:
        """How a node can serve all of a VM's devices; every way is tried, the best first."""
        vgpus = [one for one in wants if is_vgpu_resource(one)]
        others = Counter(one for one in wants if not is_vgpu_resource(one))
        free = self._free[node]
        if any(free[name] < count for name, count in others.items()):
            return None
        there = {number: self._shapes[number] for number in self._gpus[node]}
        tried = 0

        def go(at: int) -> list[_Pick] | None:
            nonlocal tried
            if at == len(vgpus):
                return []
            options: dict[Shape, tuple[int, Taken]] = {}
            for number, shape in there.items():
                if shape not in options and (taken := take(shape, vgpus[at])):
                    options[shape] = number, taken
            for number, taken in sorted(options.values(), key=lambda one: (rank(one[1]), one[0])):
                tried += 1
                if tried > _TRIED:
                    return None
                before, there[number] = there[number], taken.shape
                rest = go(at + 1)
                if rest is not None:
                    return [(vgpus[at], number, taken), *rest]
                there[number] = before
            return None

        found = go(0)
        return (
            None if found is None else (*found, *((name, -1, None) for name in others.elements()))
        )

    def _commit(self, node: str, picks: Iterable[_Pick]) -> Iterator[Got]:
        for resource, number, taken in picks:
            if taken is None:
                self._free[node][resource] -= 1
                yield Got(resource=resource)
                continue
            self._shapes[number] = taken.shape
            yield Got(
                resource=resource,
                gpu=self._fleet.gpus[number].name,
                profile=taken.profile,
                slot=taken.start,
                how=_HOW[taken.how],
            )

    def total(self, resource: str) -> int:
        """How many of a resource VMs could get on open nodes, if it were the only one."""
        found = 0
        for node in self._fleet.nodes:
            if not node.closed:
                found += self._free[node.name][resource]
                if is_vgpu_resource(resource):
                    found += sum(
                        room_for(self._shapes[one], resource) for one in self._gpus[node.name]
                    )
        return found

    def why_not(self, vm: Vm) -> str:
        """Why no node has room for a VM."""
        open_nodes = [node for node in self._fleet.nodes if not _excluded(node, vm)]
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
        closed = [f"{node.name} ({node.closed})" for node in self._fleet.nodes if node.closed]
        if asked and len(closed) < len(self._fleet.nodes):
            return f"no open node has the labels {asked}"
        return f"no node is open: {few(closed)}"

    def _most_on(self, node: Node, resource: str) -> int:
        vgpus = sum(room_for(self._shapes[one], resource) for one in self._gpus[node.name])
        return vgpus + self._free[node.name][resource]

    def _lack(self, nodes: Sequence[Node], resource: str, most: int) -> str:
        if most:
            return f"the node with the most room has room for {most}"
        shapes = [self._shapes[one] for node in nodes for one in self._gpus[node.name]]
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


_HOW = {
    How.EXISTS: "exists",
    How.MADE: "made",
    How.MADE_IN_PLACE_OF_FREE: "made in place of free vGPUs",
}


def _reason(shape: Shape, resource: str) -> str:
    """Why a GPU has no room for a profile; empty where its board does not have the profile."""
    if not any(resource_of(name) == resource for name in shape.card.kinds):
        return ""
    if shape.claimed:
        return "in use as a whole"
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
    return bool(node.closed) or not vm.selector.items() <= node.labels.items()


def _memory(vm: Vm) -> int:
    return sum(_size(name) * count for name, count in vm.requests.items())


def _size(resource: str) -> int:
    return framebuffer_mib(resource.rpartition("_")[2]) if is_vgpu_resource(resource) else 0


def _wants(vm: Vm) -> list[str]:
    """Its devices one by one, the largest first."""
    names = (name for name, count in vm.requests.items() for _ in range(count))
    return sorted(names, key=lambda name: (-_size(name), name))
