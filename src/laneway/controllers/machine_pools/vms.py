"""Which VMs are the machines of which pool, looked up and not searched for: a cluster has many.

Those that Cluster API's machines name are. Where these cannot be read, the labels tell that the
machine driver has set.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.ledger.ledger import Ledger
from laneway.kube import rancher
from laneway.kube.rancher import GuestCluster


class MachineVms:
    """The VMs of a ledger by what tells whose machines they are."""

    def __init__(self, ledger: Ledger) -> None:
        self._there: set[Consumer] = set()
        self._labelled: dict[tuple[str, ...], list[Consumer]] = {}
        for vm, demand in ledger.demands.items():
            if vm.kind is not ConsumerKind.VM:
                continue
            self._there.add(vm)
            labels = demand.labels
            key: tuple[str, ...]
            if rancher.LABEL_GUEST_CLUSTER in labels:
                cluster = labels[rancher.LABEL_GUEST_CLUSTER]
                key = (vm.namespace, cluster, labels.get(rancher.LABEL_POOL, ""))
            elif rancher.LABEL_MACHINE_SET in labels:
                key = vm.namespace, labels[rancher.LABEL_MACHINE_SET]
            else:
                continue
            self._labelled.setdefault(key, []).append(vm)

    def of(
        self, cluster: GuestCluster, pool: str, namespace: str, named: Iterable[str] = ()
    ) -> tuple[Consumer, ...]:
        """The machines of a pool. `named`: those that Cluster API's machines are, by name."""
        title = cluster.metadata.name
        names = (Consumer(ConsumerKind.VM, namespace, name) for name in named)
        found = [vm for vm in names if vm in self._there]
        found += self._labelled.get((namespace, title, pool), ())
        found += self._labelled.get((namespace, f"{namespace}-{title}-{pool}"), ())
        return tuple(dict.fromkeys(found))
