"""What a takeover must know, from one look at the API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from laneway.api import (
    MIG_OUT_OF_SYNC,
    VGPU_CONFIGURED,
    MigConfiguration,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    VGPULayout,
)
from laneway.controllers.cluster.caches import VGPUS, Vgpu
from laneway.controllers.doctor.facts import look as look_at_cluster
from laneway.controllers.doctor.objects import Asking
from laneway.controllers.takeover import adopting
from laneway.core import allocation, keys
from laneway.core.takeover import ClaimFact, TakeoverFacts, VmFact
from laneway.kube.client import Client
from laneway.kube.kubevirt import KUBEVIRTS, VIRTUAL_MACHINES, VirtualMachine, lists_of
from laneway.kube.resource import served


async def look(client: Client) -> TakeoverFacts:
    """Request everything. Raises KubeError."""
    asking = Asking(client)
    cluster, claims, vms, kubevirts, vgpus = await asyncio.gather(
        look_at_cluster(client),
        asking.all(served(PCIDeviceClaim)),
        asking.all(VIRTUAL_MACHINES),
        asking.all(KUBEVIRTS),
        asking.all(VGPUS),
    )
    gpus, cards, migs, layouts = await asyncio.gather(
        asking.all(served(SRIOVGPUDevice)),
        asking.all(served(SRIOVNetworkDevice)),
        asking.all(served(MigConfiguration)),
        asking.all(served(VGPULayout)),
    )
    device_status = await adopting.device_status(asking)
    return TakeoverFacts(
        cluster=cluster,
        claims=tuple(map(_claim, claims)),
        waiting=tuple(_waiting(gpus, cards, migs, vgpus)),
        vms=tuple(fact for one in vms if (fact := _vm(one)) is not None),
        permitted=sum(
            isinstance(item, Mapping) and item.get("externalResourceProvider") is True
            for kubevirt in kubevirts
            for items in lists_of(kubevirt).values()
            for item in items
        ),
        adopted=sum(len(adopting.adoptable(one, device_status)) for one in kubevirts),
        mediated=tuple(
            one.metadata.name
            for one in vgpus
            if one.status.framework == "mdev" and one.status.vgpu_status == VGPU_CONFIGURED
        ),
        layouts=tuple(one.metadata.name for one in layouts),
        unknown=tuple(dict.fromkeys((*cluster.unknown, *asking.unknown))),
        adoptable=asking.may_see(KUBEVIRTS, *adopting.STANDING),
        unreadable=tuple(
            {one.title: one for one in (*cluster.unreadable, *asking.unreadable)}.values()
        ),
    )


def _claim(claim: PCIDeviceClaim) -> ClaimFact:
    meta = claim.metadata
    first = next(iter(meta.owner_references), None)
    return ClaimFact(
        name=meta.name,
        node=claim.spec.node_name,
        address=claim.spec.address,
        carried_out=claim.status.passthrough_enabled,
        leaving=meta.deletion_timestamp is not None,
        owned=first is not None and (first.kind, first.name) == ("PCIDevice", meta.name),
    )


def _vm(vm: VirtualMachine) -> VmFact | None:
    meta, desired = vm.metadata, vm.spec.template.spec.domain.devices
    try:
        held = allocation.devices_of(meta.annotations.get(keys.ANNOTATION_ALLOCATION, ""))
    except ValueError:
        held = []  # Spoilt by a hand; what the VM requests still tells something.
    names = [one.name for one in held] or [
        one.device_name for one in (*desired.host_devices, *desired.gpus) if one.device_name
    ]
    if not names:
        return None
    return VmFact(
        name=f"{meta.namespace}/{meta.name}", runs=vm.status.created, devices=tuple(names)
    )


def _waiting(
    gpus: Iterable[SRIOVGPUDevice],
    cards: Iterable[SRIOVNetworkDevice],
    migs: Iterable[MigConfiguration],
    vgpus: Iterable[Vgpu],
) -> Iterable[str]:
    # Only what is still to be made: of what is to go, Harvester's status often tells the past.
    for gpu in gpus:
        if gpu.spec.enabled and not gpu.status.vf_addresses:
            yield f"SRIOVGPUDevice {gpu.metadata.name}"
    for card in cards:
        if card.spec.num_vfs > 0 and card.spec.num_vfs != len(card.status.vf_addresses):
            yield f"SRIOVNetworkDevice {card.metadata.name}"
    for mig in migs:
        if mig.spec.enabled and mig.status.status in ("", MIG_OUT_OF_SYNC):
            yield f"MigConfiguration {mig.metadata.name}"
    for vgpu in vgpus:
        if vgpu.spec.enabled and vgpu.status.vgpu_status != VGPU_CONFIGURED:
            yield f"VGPUDevice {vgpu.metadata.name}"
