"""What the vGPUs of a pod would cost on each node that has them free, by the packing policy.

Worked out once for a node, and kept until what is free there or a vGPU of the node changes. A
question works out a few nodes at the most, so that no pod waits long: in a large cluster of which
nothing is known yet, the first pods hear of the nodes with the fewest free vGPUs only. Free vGPUs
of other profiles count as room, because they can be removed.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.admission.world import NODE, World
from laneway.api import VGPU_CONFIGURED, SRIOVGPUDevice, VGPUDevice
from laneway.core import names
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger, State, Stock
from laneway.core.packing import gpus
from laneway.core.packing.policy import Score
from laneway.core.pci import PciAddress
from laneway.core.vgpu.placement import Carried

MOST_NEW = 50
"""So many nodes are worked out for one pod, about half a millisecond each."""
_KEPT_FOR = (State.RESERVED, State.WANTED)
"""States of devices that a VM can have which is about to start."""


class _Known(NamedTuple):
    stock: Stock
    score: Score | None


class NodeCosts:
    """Costs by node. What changes must be told (`changed`)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], dict[str, _Known]] = {}
        """By resource and how many are requested; there by node."""

    def changed(
        self, old: VGPUDevice | SRIOVGPUDevice | None, new: VGPUDevice | SRIOVGPUDevice | None
    ) -> None:
        """A vGPU, or a GPU that can have some, is another one than before."""
        nodes = {one.spec.node_name for one in (old, new) if one is not None}
        for table in self._known.values():
            for node in nodes:
                table.pop(node, None)

    def of(
        self,
        world: World,
        ledger: Ledger,
        requests: Mapping[str, int],
        consumer: Consumer | None = None,
    ) -> Mapping[str, Score]:
        """By node, of those where all vGPUs are free. `consumer`: the VM for which some are kept.

        `requests`: vGPUs by resource, at least one.
        """
        own = {share.node for share in ledger.shares.get(consumer, ())} if consumer else set()
        parts = []
        for resource, count in requests.items():
            part = self._of_resource(world, ledger, resource, count)
            for node in own:
                stock = ledger.stocks.get((node, resource))
                score = self._score(world, ledger, stock, count, consumer) if stock else None
                if score is not None:
                    part[node] = score
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        nodes = set(parts[0]).intersection(*parts)
        return {node: gpus.total(part[node] for part in parts) for node in nodes}

    def _of_resource(
        self, world: World, ledger: Ledger, resource: str, count: int
    ) -> dict[str, Score]:
        free = ledger.free.get(resource, {})
        if not any(there >= count for there in free.values()):
            return {}  # Nothing is to be remembered of numbers that no node has.
        table = self._known.setdefault((resource, count), {})
        found: dict[str, Score] = {}
        new: list[tuple[int, str, Stock]] = []
        for node, there in free.items():
            if there < count:
                continue
            stock, known = ledger.stocks[node, resource], table.get(node)
            if known is None or known.stock is not stock:
                new.append((there, node, stock))
            elif known.score is not None:
                found[node] = known.score
        for _, node, stock in heapq.nsmallest(MOST_NEW, new, key=lambda one: one[:2]):
            score = self._score(world, ledger, stock, count, None)
            table[node] = _Known(stock, score)
            if score is not None:
                found[node] = score
        return found

    def _score(
        self, world: World, ledger: Ledger, stock: Stock, count: int, consumer: Consumer | None
    ) -> Score | None:
        """On the one GPU that is best, else on those with the most; None: too few are free."""
        free = {*_free(stock, consumer)}
        if len(free) < count:
            return None
        made = [
            one
            for one in world.vgpus.by(NODE, stock.node)
            if one.status.vgpu_status == VGPU_CONFIGURED
        ]
        stocks = (ledger.stocks.get((stock.node, name)) for name in {*map(_resource, made)})
        room = {name for other in stocks if other for name in _free(other, None)}
        there = [_Gpu(world, members, free, room) for members in _by_gpu(made)]
        whole = [one.score(count) for one in there if len(one.free) >= count]
        if whole:
            return min(whole)
        scores: list[Score] = []
        for one in sorted(there, key=lambda one: -len(one.free)):
            taken = min(count, len(one.free))
            scores.append(one.score(taken))
            count -= taken
        # Some are free whose VGPUDevice is not known yet.
        return None if count else gpus.total(scores)


class _Gpu:
    """A GPU and what it carries."""

    def __init__(
        self, world: World, made: Sequence[VGPUDevice], free: Container[str], room: Container[str]
    ) -> None:
        """`free`: names of those that the pod can have. `room`: of all that nothing has."""
        self.free = [_carried(one) for one in made if one.metadata.name in free]
        self._held = gpus.in_order(
            _carried(one)
            for one in made
            if one.metadata.name not in free and one.metadata.name not in room
        )
        name = _name(made[0])
        device, gpu = world.pci_devices.get(name), world.gpus.get(name)
        self._gpu = gpus.Gpu(
            "" if device is None else device.status.device_id,
            tuple(sorted({one.profile for one in (*self.free, *self._held)})),
            gpu is not None and gpu.status.mode == Mode.MIXED_SIZE,
        )

    def score(self, count: int) -> Score:
        return gpus.best(self._gpu, self._held, self.free, count)[1]


def _free(stock: Stock, consumer: Consumer | None) -> Iterator[str]:
    for entry in stock.entries():
        own = entry.state in _KEPT_FOR and entry.consumer == consumer
        if (own or entry.state is State.FREE) and not entry.unhealthy:
            yield entry.device.name


def _resource(vgpu: VGPUDevice) -> str:
    status = vgpu.status
    return status.resource_name or names.vgpu_resource_name(status.configure_vgpu_type_name)


def _by_gpu(vgpus: Iterable[VGPUDevice]) -> Iterable[list[VGPUDevice]]:
    found: defaultdict[str, list[VGPUDevice]] = defaultdict(list)
    for one in vgpus:
        found[one.spec.parent_gpu_device_address].append(one)
    return found.values()


def _name(vgpu: VGPUDevice) -> str:
    """Of the objects of its GPU; empty where its spec names none."""
    try:
        address = PciAddress.parse(vgpu.spec.parent_gpu_device_address)
    except ValueError:
        return ""
    return names.pci_object_name(vgpu.spec.node_name, address)


def _carried(vgpu: VGPUDevice) -> Carried:
    return Carried(vgpu.status.configure_vgpu_type_name, vgpu.status.placement)
