"""Counts the VMs with devices that admission has not looked at.

Where no webhook answers the API server, VMs pass unseen unless an administrator wants it
otherwise, and so do those that were there before Laneway came. Each wears the mark of the devices
that were looked at, or names its requesters; without either it is counted. A user who
takes over the devices of such a VM has it looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from laneway.core import requesters
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import ANNOTATION_ADMITTED, VirtualMachine, mark_of
from laneway.kube.resource import Key


class UncheckedCollector(Collector):
    """Counts when it is scraped."""

    def __init__(self, vms: Informer[VirtualMachine], speaks: Callable[[], bool]) -> None:
        """`speaks` says whether it is for this process to tell."""
        self._vms = vms
        self._speaks = speaks
        self._changes = -1
        """How many changes there had been when it was counted last."""
        self._unchecked: set[Key] = set()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing that another collector could have."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if not self._speaks() or not self._vms.answered.is_set():
            return
        yield GaugeMetricFamily(
            "laneway_virtual_machines_unchecked",
            "VMs with devices that admission has not judged.",
            self._count(),
        )

    def _count(self) -> int:
        """Looks only at what has changed: a cluster has thousands of VMs."""
        store = self._vms.store
        changed = store.changed_since(self._changes)
        self._changes = store.changes
        if changed is None:
            self._unchecked, changed = set(), store.keys()
        self._unchecked -= changed
        for key in changed:
            vm = store.at(key)
            if vm is not None and is_unchecked(vm):
                self._unchecked.add(key)
        return len(self._unchecked)


def is_unchecked(vm: VirtualMachine) -> bool:
    """Whether a VM has devices that admission has not looked at, as far as it tells."""
    mark, annotations = (
        mark_of(vm.spec.template.spec.domain.devices),
        vm.metadata.annotations,
    )
    is_marked = annotations.get(ANNOTATION_ADMITTED) == mark
    return bool(mark) and not is_marked and not requesters.read(annotations)
