"""Whom a GPU serves, as its objects and its node say: what that forbids, and who may not lose it.

A card has up to two objects, its SRIOVGPUDevice and its PCIDevice; virtual functions serve whom
their card serves. A GPU goes from virtual machines to containers only when no claim and no vGPU is
left on it, and back only when no pod can have it. Which GPU of a node a pod has only its kubelet
knows: where the node has others for containers, the change passes with a warning, because its agent
takes no GPU that a process has open.
"""

from __future__ import annotations

from collections.abc import Iterator

from laneway.admission.rules.common import Case, Findings, pci_name
from laneway.admission.users import users_of
from laneway.admission.world import GPU_NODE, GROUP, NODE, PARENT, World
from laneway.api import PCIDevice, SRIOVGPUDevice
from laneway.controllers.gpu_workloads import vendors_of
from laneway.core.gpu.vendors import Vendor, vendor_of
from laneway.core.gpu.workload import Assigned, Said, assigned
from laneway.core.phrases import few, set_enabled
from laneway.core.refusals import (
    GpuPodsRunning,
    GpuServesVms,
    GpusForContainers,
    WorkloadsContradict,
)
from laneway.core.use import Use, in_words, to_release
from laneway.kube.resource import key_of

GpuObject = SRIOVGPUDevice | PCIDevice


def vendor(device: PCIDevice) -> Vendor | None:
    """Whose GPU a device is, or is a function of; None where it is no GPU."""
    return vendor_of(device.status.vendor_id, device.status.class_id)


def of_device(world: World, device: PCIDevice) -> Assigned | None:
    """Whom a device serves; None where it is no GPU."""
    if vendor(device) is None:
        return None
    status = device.status
    card = pci_name(status.node_name, status.physical_function) or device.metadata.name
    return of_card(world, card, status.node_name)


def of_card(world: World, name: str, node: str, new: GpuObject | None = None) -> Assigned:
    """Whom the GPU of this name serves. `new`: an object as it is to be."""
    stored: dict[type[GpuObject], GpuObject | None] = {
        SRIOVGPUDevice: world.gpus.get(name),
        PCIDevice: world.pci_devices.get(name),
    }
    if new is not None:
        stored[type(new)] = new
    said = (Said(one.kind, name, one.spec.workload) for one in stored.values() if one is not None)
    known = world.nodes.get(node)
    return assigned(said, node, known.metadata.labels if known is not None else {})


def against(world: World, name: str, node: str, serves: Assigned | None) -> Findings:
    """That a GPU, of which `serves` is known, is not for virtual machines."""
    if serves is not None and serves.for_containers:
        device = world.pci_devices.get(name)
        pods = _pods(world, node, vendor(device) if device is not None else Vendor.NVIDIA)
        yield GpusForContainers(name, node, serves.said, serves.change, pods)


def changed(case: Case[GpuObject], old: GpuObject, new: GpuObject, node: str) -> Findings:
    """What speaks against another `spec.workload` of a card."""
    if old.spec.workload == new.spec.workload:
        return
    name, world = case.name, case.world
    yield from _contradicted(world, name, new)
    before, after = of_card(world, name, node, old), of_card(world, name, node, new)
    if after.for_containers and not before.for_containers:
        yield from _had_by_vms(world, name, node)
    elif before.for_containers and not after.for_containers:
        yield from _had_by_pods(world, name, node)


def _contradicted(world: World, name: str, new: GpuObject) -> Findings:
    other: GpuObject | None = (
        world.pci_devices.get(name) if isinstance(new, SRIOVGPUDevice) else world.gpus.get(name)
    )
    said, others = new.spec.workload, other.spec.workload if other is not None else ""
    if other is not None and said and others and said != others:
        yield WorkloadsContradict(name, said, other.kind.lower(), others)


def _had_by_vms(world: World, name: str, node: str) -> Findings:
    claimed = [one for one in _together(world, name, node) if world.claims.get(one) is not None]
    vgpus = sorted(one.metadata.name for one in world.vgpus.by(PARENT, name) if one.spec.enabled)
    gpu = world.gpus.get(name)
    held = [
        *(_held(world, one, "PCIDeviceClaim") for one in claimed),
        *(_held(world, one, "VGPUDevice") for one in vgpus),
    ]
    shared = gpu is not None and gpu.spec.enabled
    if shared and not vgpus:
        held.append("it is enabled for vGPUs")
    users = tuple(use for one in (*claimed, *vgpus) for use in users_of(world, one))
    if held:
        yield GpuServesVms(name, tuple(held), _end(name, claimed, vgpus, users))


def _held(world: World, name: str, kind: str) -> str:
    users = users_of(world, name)
    return f"{kind} {name}" + (f", used by {in_words(users)}" if users else "")


def _end(name: str, claimed: list[str], vgpus: list[str], users: tuple[Use, ...]) -> str:
    """The next command: none of these is allowed before those above it."""
    if users:
        return to_release(dict.fromkeys(users))
    if claimed:
        return f"kubectl delete pcideviceclaim {' '.join(claimed)}"
    if vgpus:
        return set_enabled("vgpudevice", *vgpus, enabled=False)
    return set_enabled("sriovgpudevice", name, enabled=False)


def _together(world: World, name: str, node: str) -> Iterator[str]:
    """A card, its virtual functions, and what leaves the node with it."""
    yield name
    yield from sorted(
        one.metadata.name
        for one in world.pci_devices.by(NODE, node)
        if pci_name(node, one.status.physical_function) == name
    )
    device = world.pci_devices.get(name)
    if device is not None and device.status.iommu_group:
        group = world.pci_devices.by(GROUP, (node, device.status.iommu_group))
        yield from sorted({one.metadata.name for one in group} - {name})


def _had_by_pods(world: World, name: str, node: str) -> Findings:
    device = world.pci_devices.get(name)
    whose = vendor(device) if device is not None else Vendor.NVIDIA
    pods = _pods(world, node, whose)
    if not pods:
        return
    if _others(world, name, node, whose):
        yield (
            f"Pods on node {node} use its GPUs: {few(pods)}. Laneway claims or shares {name} only "
            "when no process has it open."
        )
    else:
        yield GpuPodsRunning(node, pods, f"have {name} serve VMs")


def _others(world: World, name: str, node: str, whose: Vendor | None) -> bool:
    """Whether the node has another GPU of a vendor for containers."""
    return any(
        vendor(one) is whose
        and not one.status.physical_function
        and one.metadata.name != name
        and of_card(world, one.metadata.name, node).for_containers
        for one in world.pci_devices.by(NODE, node)
    )


def _pods(world: World, node: str, whose: Vendor | None) -> tuple[str, ...]:
    """The pods of a node that have GPUs of a vendor as containers have them."""
    found = world.pods.by(GPU_NODE, node)
    return tuple(sorted(str(key_of(pod)) for pod in found if whose in vendors_of(pod)))
