"""Objects that change, as the changes of facts that follow from them.

Each object is turned into its fact when it changes, because there are many. The demand of a VM
follows from three objects, which often change together: it is worked out when the changes are
taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from laneway.api import CoreNode
from laneway.controllers.ledger import demands, nodes
from laneway.controllers.ledger.objects import Pod, asks
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact
from laneway.core.ledger.upkeep import Changes
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import LABEL_CREATED_BY, VirtualMachine, VirtualMachineInstance
from laneway.kube.resource import Key, KubeObject, T, key_of


class Gathering:
    """What has changed since it was taken last."""

    def __init__(
        self,
        changed: Callable[[], None],
        *,
        vms: Informer[VirtualMachine],
        instances: Informer[VirtualMachineInstance],
        pods: Informer[Pod],
        nodes: Informer[CoreNode],
    ) -> None:
        """`changed` is called when there is something to take."""
        self._changed = changed
        self._vms = vms
        self._instances = instances
        self._nodes = nodes
        self._resources: Counter[str] = Counter()
        self._pods: dict[Key, Pod] = {}
        """Those that may request devices and run no VM."""
        self._places: dict[str, dict[Key, str]] = {}
        """By uid of an instance, the nodes of its pods."""
        self._by_uid: dict[str, Key] = {}
        """The instances."""
        self._new_facts: dict[Hashable, DeviceFact | None] = {}
        self._new_vms: set[Key] = set()
        self._new_pods: set[Key] = set()
        self._new_nodes: set[str] = set()
        vms.subscribe(self._vm_changed)
        instances.subscribe(self._instance_changed)
        pods.subscribe(self._pod_changed)
        nodes.subscribe(self._node_changed)

    def follow(
        self, kind: str, informer: Informer[T], fact_of: Callable[[T], DeviceFact | None]
    ) -> None:
        """Devices of one kind of object; `fact_of` gives the same whenever it is asked."""

        def changed(before: T | None, after: T | None) -> None:
            if (one := after or before) is None:
                return
            key = kind, one.metadata.namespace, one.metadata.name
            known = None if before is None else fact_of(before)
            fact = None if after is None else fact_of(after)
            if fact == known:
                return
            if known is not None:
                self._count(known.resource, -1)
            if fact is not None:
                self._count(fact.resource, 1)
            self._new_facts[key] = fact
            self._changed()

        informer.subscribe(changed)

    def take(self) -> Changes:
        """What has changed; the next time only what has changed since."""
        found: dict[Consumer, Demand | None] = {}
        for key in self._new_vms:
            found[demands.consumer_of(key)] = demands.of_vm(
                self._vms.store.at(key), self._instances.store.at(key), self._place
            )
        for key in self._new_pods:
            pod = self._pods.get(key)
            consumer = Consumer(ConsumerKind.POD, key.namespace, key.name)
            found[consumer] = None if pod is None else demands.of_pod(pod, self._resources)
        there = {name: self._nodes.store.get(name) for name in self._new_nodes}
        seen = {name: None if node is None else nodes.of_node(node) for name, node in there.items()}
        changes = Changes(self._new_facts, found, seen)
        self._new_facts = {}
        for taken in (self._new_vms, self._new_pods, self._new_nodes):
            taken.clear()
        return changes

    def _count(self, resource: str, count: int) -> None:
        """A pod requests devices if there is any of what it requests."""
        known = resource in self._resources
        self._resources[resource] += count
        if not self._resources[resource]:
            del self._resources[resource]
        if known != (resource in self._resources):
            self._new_pods.update(self._pods)

    def _place(self, uid: str) -> str:
        """The node that an instance is on by its pods; while it migrates, that of the newer."""
        places = self._places.get(uid)
        return places[next(reversed(places))] if places else ""

    def _vm_changed(self, *versions: KubeObject | None) -> None:
        self._new_vms.update(key_of(one) for one in versions if one is not None)
        self._changed()

    def _instance_changed(
        self, before: VirtualMachineInstance | None, after: VirtualMachineInstance | None
    ) -> None:
        if before is not None:
            self._by_uid.pop(before.metadata.uid, None)
        if after is not None:
            self._by_uid[after.metadata.uid] = key_of(after)
        self._vm_changed(before, after)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and asks(before):
            self._forget(before, after)
        if after is None or not asks(after):
            return
        key, uid = key_of(after), after.metadata.labels.get(LABEL_CREATED_BY)
        if uid is None:
            self._pods[key] = after
            self._new_pods.add(key)
            self._changed()
            return
        if after.status.phase in demands.ENDED:
            return
        self._places.setdefault(uid, {})[key] = after.spec.node_name
        self._place_changed(uid)

    def _forget(self, before: Pod, after: Pod | None) -> None:
        key, uid = key_of(before), before.metadata.labels.get(LABEL_CREATED_BY)
        if uid is None:
            del self._pods[key]
            self._new_pods.add(key)
            self._changed()
            return
        same = after is not None and after.metadata.labels.get(LABEL_CREATED_BY) == uid
        ended = after is not None and after.status.phase in demands.ENDED
        if (same and not ended) or key not in self._places.get(uid, ()):
            return  # it keeps its place among the pods of its instance
        del self._places[uid][key]
        if not self._places[uid]:
            del self._places[uid]
        self._place_changed(uid)

    def _place_changed(self, uid: str) -> None:
        if (key := self._by_uid.get(uid)) is not None:
            self._new_vms.add(key)
            self._changed()

    def _node_changed(self, before: CoreNode | None, after: CoreNode | None) -> None:
        if before and after and nodes.of_node(before) == nodes.of_node(after):
            return  # A heartbeat: of a large cluster they never stop.
        if (one := after or before) is not None:
            self._new_nodes.add(one.metadata.name)
            self._changed()
