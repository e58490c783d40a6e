"""What is legal and unwise about the devices of a VM: few things, each in a sentence or two.

A warning is cut after 256 characters, so each begins with what matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubebasics import quantity
from laneway.admission.users import VmState, users_of
from laneway.admission.vms.devices import find, named
from laneway.admission.world import World
from laneway.core.ledger.facts import Consumer
from laneway.core.phrases import quoted
from laneway.kube.kubevirt import DeviceRequest, InstanceSpec, Quantity, VirtualMachineSpec


def misnamed(requests: Sequence[DeviceRequest], world: World) -> Iterator[str]:
    """Entries that bear the name of a device and request another resource."""
    for one in requests:
        found = find(world, one.name)
        if found is None or not found.resources or not one.device_name:
            continue
        if one.device_name not in found.resources:
            yield (
                f"{found.title} has the resource {found.resources[0]}, and hostdevice {one.name} "
                f"requests {quoted(one.device_name)}: the VM gets any device of that resource."
            )


def taken(
    requests: Sequence[DeviceRequest], world: World, itself: Sequence[Consumer]
) -> Iterator[str]:
    """Named devices that another VM has or that are kept for it."""
    for one in requests:
        found = named(world, one)
        if found is None:
            continue
        for use in users_of(world, found.name):
            if use.consumer in itself or use.state is VmState.NEVER_STARTED:
                continue
            has = "uses" if use.state is VmState.RUNS else "is stopped and reserves"
            yield (
                f"{use.consumer} {has} {found.title}: the VM gets another {one.device_name}, if "
                "one is free."
            )
            break


def unseen(spec: VirtualMachineSpec, old: VirtualMachineSpec | None) -> Iterator[str]:
    """What KubeVirt fills in of a VM when it starts, said when that changes.

    Admission does not read instancetypes, so it is not known which of them have devices.
    """
    devices = spec.template.spec.domain.devices
    name = spec.instancetype.name
    if name and (old is None or old.instancetype.name != name):
        yield (
            f"Devices of instancetype {quoted(name)} are not checked. If it has some, KubeVirt "
            "requests them itself when the VM starts, and claimed ones are refused: list them in "
            "the VM."
        )
    name = spec.preference.name
    silent = [one for one in devices.gpus if one.virtual_gpu_options is None]
    if not name or not silent:
        return
    before = None if old is None else (old.preference.name, old.template.spec.domain.devices)
    if before != (name, devices):
        yield (
            f"Displays that preference {quoted(name)} gives to gpus are not checked. Set them in "
            "virtualGPUOptions: only one display can have ramFB."
        )


def unwise(spec: InstanceSpec) -> Iterator[str]:
    """What devices do not go together with."""
    memory = _bytes(spec.domain.memory.guest)
    asked = _bytes(spec.domain.resources.requests.get("memory", ""))
    if 0 < asked < memory:
        yield (
            "The memory request is below the guest memory. A passed-through device pins all memory "
            "of the guest, so a node can run out of it; request as much as the guest has."
        )
    if spec.eviction_strategy == "LiveMigrate":
        yield (
            "evictionStrategy LiveMigrate has no effect with passed-through devices: the VM "
            "cannot migrate, so it blocks the drain of its node. Use None or External."
        )


def _bytes(amount: Quantity) -> float:
    """0 for what is no amount, of which nothing is said."""
    try:
        return quantity.value(str(amount)) / quantity.NANO
    except ValueError:
        return 0
