"""The state of the cluster, worked out once for all users.

That is what is not as it should be, what changed last, and what could be created. Nothing here
depends on a user; what of it a user may see is decided by the pages.
"""

from __future__ import annotations

import functools
import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from laneway.api import SRIOVGPUDevice
from laneway.controllers.doctor.facts import is_agent
from laneway.core import keys
from laneway.kube.resource import Key
from laneway.kube.store import Store
from laneway.views import troubles
from laneway.views.capacity_document import creatable_on
from laneway.views.gpus import node_of
from laneway.views.troubles import Trouble, Weight
from laneway.web.caches import NODE, Caches, Change, of_node
from laneway.web.derived import Derived, Newest

K = TypeVar("K")

DEVICES = (
    "device_nodes",
    "gpus",
    "vgpus",
    "migs",
    "layouts",
    "pci",
    "claims",
    "networks",
    "usb",
    "usb_claims",
    "policies",
    "preparations",
)
"""The caches of objects of ours."""
NAMED_AS_NODE = ("nodes", "device_nodes", "preparations")
"""Those of which each is about the node of its name."""
_MINUTE = len("2026-01-01T00:00")
OBSERVED = ("pci", "usb")
"""Those without a desired state: what happens to their devices shows in others."""
NEWEST = 64
"""So much of what happened last is known of each kind."""


class Found(NamedTuple):
    """An object that is not as it should be."""

    kind: str
    """The name of its cache."""
    key: Key
    node: str
    trouble: Trouble


class Happened(NamedTuple):
    """The condition of an object that changed last."""

    moment: str
    kind: str
    key: Key
    node: str
    condition: str
    status: str
    reason: str
    message: str


class Standing:
    """Call `refresh` before anything is read."""

    def __init__(self, caches: Caches) -> None:
        self.creatable: Counter[tuple[str, str]] = Counter()
        """How many vGPUs could be created of each type: by node and resource."""
        self.creatable_types: Counter[str] = Counter()
        """The same by resource."""
        self.creatable_as_of = object()
        """Another one whenever these have changed."""
        self.configured: Counter[str] = Counter()
        """vGPUs by node."""
        self.by_node: dict[str, set[tuple[str, Key]]] = defaultdict(set)
        """Which objects are not as they should be."""
        self._caches = caches
        stores: dict[str, Store[Any]] = {kind: getattr(caches, kind).store for kind in DEVICES}
        self._troubles = {
            kind: Derived(store, functools.partial(_found, kind), self._differs)
            for kind, store in stores.items()
        }
        self._newest = {
            kind: Newest(store, _changed_at, NEWEST)
            for kind, store in stores.items()
            if kind not in OBSERVED
        }
        self._fits = Derived(caches.gpus.store, _fits, self._fits_differ)
        self._vgpus = Derived(caches.vgpus.store, _configured, self._vgpus_differ)
        self._agents: tuple[object, frozenset[str]] = (None, frozenset())
        self._nodes: tuple[object, Mapping[str, tuple[Trouble, ...]]] = (None, {})

    def refresh(self) -> Standing:
        """As of now."""
        for found in self._troubles.values():
            found.refresh()
        self._fits.refresh()
        self._vgpus.refresh()
        return self

    def troubles(self, kinds: Collection[str]) -> Iterator[Found]:
        """Of these kinds, and of nodes (`nodes`), in no order."""
        for kind in kinds:
            if kind in self._troubles:
                yield from self._troubles[kind].facts.values()
            for key, why in getattr(self._caches, kind).undecodable.items():
                yield Found(kind, key, "", troubles.unreadable(why))
        if "nodes" in kinds:
            for name, found in self.of_nodes().items():
                for trouble in found:
                    yield Found("nodes", Key("", name), name, trouble)

    def of_node(self, name: str, kinds: Collection[str]) -> Iterator[Found]:
        """Of the objects of one node."""
        for kind, key in self.by_node.get(name, ()):
            if kind in kinds:
                yield self._troubles[kind].facts[key]
        for trouble in self.of_nodes().get(name, ()) if "nodes" in kinds else ():
            yield Found("nodes", Key("", name), name, trouble)

    def happened(self, kinds: Collection[str], most: int) -> list[tuple[Happened, int]]:
        """What changed last on objects of these kinds, the newest first.

        What happened to several devices of a node alike is one thing; the number says to how many
        more.
        """
        found = (
            _happened(kind, obj)
            for kind, newest in self._newest.items()
            if kind in kinds
            for obj in newest.refresh()
        )
        alike: dict[tuple[str, ...], list[Happened]] = {}
        for one in sorted(found, reverse=True):
            what = one.moment[:_MINUTE], one.kind, one.node, one.condition, one.reason
            alike.setdefault(what, []).append(one)
        return [(same[0], len(same) - 1) for same in islice(alike.values(), most)]

    def agents(self) -> frozenset[str]:
        """The nodes that an agent manages: its pod is ready or, without pods, it has answered."""
        version = self._caches.agents.store.changes, self._caches.device_nodes.store.changes
        if self._agents[0] != version:
            self._agents = version, answering(self._caches)
        return self._agents[1]

    def of_nodes(self) -> Mapping[str, tuple[Trouble, ...]]:
        """What is wrong with each node, where something is."""
        caches = self._caches
        stores = (caches.nodes, caches.device_nodes, caches.agents, caches.gpus)
        version = tuple(one.store.changes for one in stores)
        if self._nodes[0] != version:
            self._nodes = version, self._judged()
        return self._nodes[1]

    def _judged(self) -> Mapping[str, tuple[Trouble, ...]]:
        caches, agents = self._caches, self.agents()
        found = {}
        for name in node_names(caches):
            node = caches.nodes.store.get(name)
            labelled = node is not None and keys.LABEL_DRIVER_NEEDED in node.metadata.labels
            of = troubles.of_node(
                node,
                agent=name in agents,
                devices=labelled or caches.gpus.store.first(NODE, name) is not None,
            )
            if wrong := tuple(of):
                found[name] = wrong
        return found

    def _differs(self, key: Key, before: Found | None, after: Found | None) -> None:
        if before is not None:
            self.by_node[before.node].discard((before.kind, key))
        if after is not None:
            self.by_node[after.node].add((after.kind, key))

    def _fits_differ(self, _key: Key, before: _Fits | None, after: _Fits | None) -> None:
        self.creatable_as_of = object()
        for fits, sign in ((before, -1), (after, 1)):
            if fits is None:
                continue
            for resource, count in fits.counts.items():
                _add(self.creatable, (fits.node, resource), sign * count)
                _add(self.creatable_types, resource, sign * count)

    def _vgpus_differ(self, _key: Key, before: str | None, after: str | None) -> None:
        for node, sign in ((before, -1), (after, 1)):
            if node is not None:
                self.configured[node] += sign


def answering(caches: Caches) -> frozenset[str]:
    """The nodes that an agent manages, looked up again."""
    pods = caches.agents.store
    if len(pods):
        return frozenset(pod.spec.node_name for pod in pods if is_agent(pod))
    markers = caches.device_nodes.store
    return frozenset(one.metadata.name for one in markers if one.status.conditions)


def node_names(caches: Caches) -> list[str]:
    """Every node that there is, or that GPUs say they are on."""
    found = {one.metadata.name for one in caches.nodes.store}
    return sorted(found | set(map(str, caches.gpus.store.values(NODE))))


def _add(counts: Counter[K], key: K, count: int) -> None:
    """Without keeping a zero."""
    counts[key] += count
    if not counts[key]:
        del counts[key]


class _Fits(NamedTuple):
    """What could be created on a GPU."""

    node: str
    counts: Mapping[str, int]


def _fits(gpu: SRIOVGPUDevice) -> _Fits | None:
    counts = creatable_on(gpu)
    return _Fits(node_of(gpu), counts) if counts else None


def _configured(vgpu: Any) -> str | None:
    return node_of(vgpu) if vgpu.status.vgpu_status else None


def _found(kind: str, obj: Any) -> Found | None:
    trouble = troubles.of_device(obj)
    if trouble is None:
        return None
    return Found(kind, Key("", obj.metadata.name), node_of_object(kind, obj), trouble)


def node_of_object(kind: str, obj: Any) -> str:
    """The node of an object of ours."""
    if kind in NAMED_AS_NODE:
        return str(obj.metadata.name)
    return next(iter(of_node(obj)), "")


def _changed_at(obj: Any) -> str:
    """When a condition changed last."""
    return max((one.last_transition_time for one in obj.status.conditions), default="")


def _happened(kind: str, obj: Any) -> Happened:
    moment = _changed_at(obj)
    last = next(one for one in obj.status.conditions if one.last_transition_time == moment)
    return Happened(
        moment,
        kind,
        Key("", obj.metadata.name),
        node_of_object(kind, obj),
        last.type,
        last.status,
        last.reason,
        last.message,
    )


def looks_other(change: Change) -> bool:
    """Whether a change of an object of ours may change the state of the cluster."""
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return bool(
        _found(change.kind, before) != _found(change.kind, after)
        or _changed_at(before) != _changed_at(after)
        or (change.kind == "gpus" and _fits(before) != _fits(after))
    )


def worst(found: Iterable[Found], most: int) -> list[Found]:
    """The worst first; of those that are alike, in the order of their names."""
    return heapq.nsmallest(most, found, key=lambda one: (one.trouble.weight, one.node, one.key))


def counted(found: Iterable[Found]) -> Counter[Weight]:
    """How many there are of each weight."""
    return Counter(one.trouble.weight for one in found)


@functools.lru_cache(maxsize=2)
def _standing(caches: Caches) -> Standing:
    return Standing(caches)


def standing(caches: Caches) -> Standing:
    """The state of the cluster of these caches now."""
    return _standing(caches).refresh()
