"""What a VM requests, what its instance runs with, and which devices it has: three things.

The spec is what the next start requests. The instance has what was requested when it started. The
devices are those whose own objects say that the kubelet gave them to it; a record on the VM counts
only while it does not run, as what is kept for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubebasics import quantity
from laneway.core import allocation, keys, names
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.ledger.ledger import Ledger, State
from laneway.kube.kubevirt import (
    DeviceRequest,
    InstanceSpec,
    Template,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineSpec,
)

ENDED = ("Succeeded", "Failed")
_OVERCOMMIT = 10
"""Virtual processors on one real one, as KubeVirt counts them unless it is set otherwise."""


class Vm(NamedTuple):
    """A VM by its objects; an instance may have been made without a VirtualMachine."""

    namespace: str
    name: str
    vm: VirtualMachine | None
    instance: VirtualMachineInstance | None

    @property
    def consumer(self) -> Consumer:
        return Consumer(ConsumerKind.VM, self.namespace, self.name)

    @property
    def running(self) -> VirtualMachineInstance | None:
        """Its instance, unless that has ended."""
        one = self.instance
        return one if one is not None and one.status.phase not in ENDED else None

    @property
    def node(self) -> str:
        return self.running.status.node_name if self.running is not None else ""

    @property
    def desired(self) -> VirtualMachineSpec:
        """The spec that counts when it starts next."""
        if self.vm is not None:
            return self.vm.spec
        spec = self.instance.spec if self.instance is not None else InstanceSpec()
        return VirtualMachineSpec(template=Template(spec=spec))

    @property
    def spec(self) -> InstanceSpec:
        """What it requests when it starts next."""
        return self.desired.template.spec

    @property
    def state(self) -> str:
        """KubeVirt's word on it."""
        if self.vm is not None and self.vm.status.printable_status:
            return self.vm.status.printable_status
        return self.instance.status.phase if self.instance is not None else ""

    @property
    def starts_by_itself(self) -> bool:
        """Whether its spec has KubeVirt run it, so it can be stopped and not started."""
        if self.vm is None:
            return False
        if self.vm.spec.running is not None:
            return self.vm.spec.running
        return self.vm.spec.run_strategy in ("Always", "RerunOnFailure", "Once")


class Has(NamedTuple):
    """A device that a VM has, or that is kept for it."""

    name: str
    node: str
    resource: str
    how: State


class Line(NamedTuple):
    """What a VM requests of one resource, and what it has of it."""

    resource: str
    entries: tuple[str, ...]
    """What its spec calls them."""
    running: int
    """How many its instance runs with, or is to run with."""
    has: tuple[Has, ...]

    @property
    def waits_for_restart(self) -> bool:
        """Whether the spec was edited since the instance started; only where there is one."""
        return len(self.entries) != self.running

    @property
    def held(self) -> int:
        return sum(one.how is State.HELD for one in self.has)


def requests(devices: Iterable[DeviceRequest]) -> Mapping[str, int]:
    """How many of each resource; what comes from a resource claim is the scheduler's business."""
    return Counter(one.device_name for one in devices if one.device_name)


def lines(vm: Vm, ledger: Ledger | None) -> list[Line]:
    """A line for each resource that it requests, runs with or has."""
    entries: dict[str, list[str]] = {}
    for one in vm.spec.domain.devices.all:
        if one.device_name:
            entries.setdefault(one.device_name, []).append(one.name)
    running: Mapping[str, int] = {}
    if vm.running is not None:
        running = requests(vm.running.spec.domain.devices.all)
    has: dict[str, list[Has]] = {}
    for device in devices_of(vm.consumer, ledger):
        has.setdefault(device.resource, []).append(device)
    found = dict.fromkeys((*entries, *running, *has))
    return [
        Line(one, tuple(entries.get(one, ())), running.get(one, 0), tuple(has.get(one, ())))
        for one in found
    ]


def devices_of(consumer: Consumer, ledger: Ledger | None) -> Iterator[Has]:
    """What it has for certain: held by the word of the kubelet, or kept for it.

    The ledger puts any free device down for a VM that runs and is reported with none; that is a
    guess, and is left out here.
    """
    if ledger is None:
        return
    for share in ledger.shares.get(consumer, ()):
        stock = ledger.stocks[share.node, share.resource]
        taking = stock.taken.get(share.name)
        if taking is None or taking.consumer != consumer:
            continue
        if taking.state is State.HELD and not any(
            one.name == share.name and one.owner == consumer for one in stock.devices
        ):
            continue
        yield Has(share.name, share.node, share.resource, taking.state)


def outdated_record(vm: Vm, ledger: Ledger | None) -> tuple[str, ...]:
    """Devices that the record on a running VM names and that it does not hold."""
    if vm.vm is None or vm.running is None or ledger is None:
        return ()
    text = vm.vm.metadata.annotations.get(keys.ANNOTATION_ALLOCATION, "")
    try:
        recorded = {one.name for one in allocation.devices_of(text)}
    except ValueError:
        return ()
    held = {one.name for one in devices_of(vm.consumer, ledger) if one.how is State.HELD}
    return tuple(sorted(recorded - held)) if held else ()


def is_exact(resource: str, name: str) -> bool:
    """Whether a resource is that of one device alone, so a VM gets this very device."""
    return resource in (names.pinned_resource_name(resource, name), names.usb_resource_name(name))


def memory_of(spec: InstanceSpec) -> int:
    """Bytes of memory that the node has to have; 0 where it is not said."""
    domain = spec.domain
    return bytes_of(str(domain.resources.requests.get("memory") or domain.memory.guest))


def cpu_of(spec: InstanceSpec) -> int:
    """Thousandths of a processor that KubeVirt requests for it."""
    asked = str(spec.domain.resources.requests.get("cpu", ""))
    if asked:
        return milli_of(asked)
    return spec.domain.cpu.count * 1000 // _OVERCOMMIT


def bytes_of(text: str) -> int:
    """A quantity in bytes; 0 for what is none."""
    return _amount(text, 1)


def milli_of(text: str) -> int:
    """A quantity in thousandths; 0 for what is none."""
    return _amount(text, 1000)


def _amount(text: str, scale: int) -> int:
    try:
        return quantity.value(text) * scale // quantity.NANO
    except ValueError:
        return 0
