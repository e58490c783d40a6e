"""A cluster as the planner's fleet: from the ledger's facts, and the GPUs as they are assembled.

The ledger says which VM has a vGPU, so a plan leaves to stopped VMs what is reserved for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from laneway.api import VGPU_CONFIGURED, MigConfiguration, VGPUDevice
from laneway.core.fleet import board
from laneway.core.fleet.migration import ecc_of
from laneway.core.fleet.model import POD, Device, Fleet, Framework, Gpu, Node, Vgpu, Vm
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact, Facts
from laneway.core.ledger.ledger import Ledger
from laneway.core.mig.profiles import bare_name
from laneway.views import gpus as assembled

_UNHEALTHY_WITHOUT_FACT = "it is not advertised to VMs"


def observed(
    facts: Facts,
    gpus: Iterable[assembled.Gpu],
    unreadable: Iterable[str] = (),
    containers: Iterable[Demand] = (),
) -> Fleet:
    """The fleet; `containers`: pods that request GPU instances."""
    return of_ledger(build(facts), gpus, unreadable, containers=containers)


def plain_name(consumer: Consumer) -> str:
    """`NAMESPACE/NAME` of a VM, `pod NAMESPACE/NAME`."""
    path = f"{consumer.namespace}/{consumer.name}" if consumer.namespace else consumer.name
    return f"{POD}{path}" if consumer.kind is ConsumerKind.POD else path


def of_ledger(
    ledger: Ledger,
    gpus: Iterable[assembled.Gpu],
    unreadable: Iterable[str] = (),
    name: Callable[[Consumer], str] = plain_name,
    containers: Iterable[Demand] = (),
) -> Fleet:
    """The same from a ledger that there is; `name`: of a VM or pod, no two alike."""
    demands = dict(ledger.demands)
    for one in containers:
        others = demands[one.consumer].requests if one.consumer in demands else {}
        requests = {**others, **one.requests}
        demands[one.consumer] = msgspec.structs.replace(one, requests=requests)
    holders = {
        device: name(taking.consumer)
        for stock in ledger.stocks.values()
        for device, taking in stock.taken.items()
    }
    devices = {one.name: one for stock in ledger.stocks.values() for one in stock.devices}
    found = tuple(_gpu(gpu, devices, holders) for gpu in gpus)
    carried = {vgpu.name for gpu in found for vgpu in gpu.vgpus}
    nodes = {
        node: Node(name=node, labels=fact.labels, closed=fact.closed)
        for node, fact in ledger.nodes.items()
    }
    for gpu in found:
        nodes.setdefault(gpu.node, Node(name=gpu.node))
    return Fleet(
        nodes=tuple(nodes[name] for name in sorted(nodes)),
        gpus=found,
        devices=tuple(
            Device(
                name=device.name,
                node=device.node,
                resource=device.resource,
                holder=holders.get(device.name, ""),
                unhealthy=device.unhealthy,
            )
            for device in sorted(devices.values(), key=lambda one: one.name)
            if device.name not in carried
        ),
        vms=tuple(
            Vm(
                name=name(consumer),
                phase=demand.phase,
                requests={name: count for name, count in demand.requests.items() if count > 0},
                node=demand.node,
                selector=demand.selector,
                labels=demand.labels,
                created=demand.created,
                migratable=demand.migratable,
                stopping=demand.stopping,
            )
            for consumer, demand in sorted(demands.items(), key=lambda pair: pair[0])
        ),
        unreadable=tuple(unreadable),
    )


def _gpu(gpu: assembled.Gpu, devices: Mapping[str, DeviceFact], holders: Mapping[str, str]) -> Gpu:
    pci = gpu.pci.status if gpu.pci is not None else None
    listed = {name for vgpu in gpu.vgpus for name in vgpu.status.available_types}
    listed |= {*gpu.device.status.fits, *gpu.device.status.configured}
    ids = (pci.device_id, pci.subsystem_device_id) if pci is not None else ("", "")
    frameworks = {vgpu.status.framework for vgpu in gpu.vgpus} - {""}
    return Gpu(
        name=gpu.name,
        node=gpu.node,
        address=gpu.address,
        device=pci.device_id if pci is not None else "0000",
        subsystem=pci.subsystem_device_id if pci is not None else "",
        board=gpu.board,
        mode=gpu.device.status.mode,
        functions=len(gpu.vgpus),
        driver=gpu.device.status.driver_version,
        ecc=ecc_of(gpu.device.status.ecc_mode),
        instances=tuple(_instances(gpu.mig)),
        instance_profiles=tuple(_instance_profiles(gpu.mig)),
        framework=Framework(frameworks.pop()) if len(frameworks) == 1 else Framework.UNKNOWN,
        profiles=board.profiles(*ids, listed),
        vgpus=tuple(
            _vgpu(vgpu, devices, holders)
            for vgpu in gpu.vgpus
            if vgpu.status.vgpu_status == VGPU_CONFIGURED
        ),
        claimed="it is claimed as a whole" if gpu.claim is not None else "",
    )


def _instances(mig: MigConfiguration | None) -> Iterator[GpuInstance]:
    """Those whose place is known; an agent of another product does not tell it."""
    for one in mig.status.profile_status if mig is not None else ():
        for number, start in zip(one.vgpu_ids, one.placements, strict=False):
            if number.isdecimal() and one.size:
                yield GpuInstance(int(number), bare_name(one.name), one.id, start, one.size)


def _instance_profiles(mig: MigConfiguration | None) -> Iterator[GpuInstanceProfile]:
    for one in mig.status.profile_status if mig is not None else ():
        if one.starts and one.size:
            yield GpuInstanceProfile(
                bare_name(one.name), one.id, one.total, tuple(one.starts), one.size
            )


def _vgpu(vgpu: VGPUDevice, devices: Mapping[str, DeviceFact], holders: Mapping[str, str]) -> Vgpu:
    name = vgpu.metadata.name
    device = devices.get(name)
    return Vgpu(
        name=name,
        profile=vgpu.status.configure_vgpu_type_name,
        slot=vgpu.status.placement,
        instance=vgpu.status.gpu_instance,
        holder=holders.get(name, ""),
        unhealthy=device.unhealthy if device is not None else _UNHEALTHY_WITHOUT_FACT,
    )
