"""Users of a device: VMs and pods that have it or name it.

A VM or pod is a user of a device when one of these says so:

- its claim or VGPUDevice: the kubelet gave it to a pod;
- a VM, or an instance of one, that calls one of its devices by this name. Whether it
  runs does not matter: one that never ran would wait for ever without it;
- the allocation annotation of a VM. Of one that is stopped that is its reservation,
  and holds for what the VM still requests.

A stopped VM that is being deleted uses nothing any more. A device that a VM would
get by the name of its resource alone belongs to no VM before it is started.
"""

from __future__ import annotations

from collections.abc import Iterator

from laneway.admission.world import DEVICE_NAME, World
from laneway.api import Allocation
from laneway.core import allocation, keys
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.use import Use, VmState
from laneway.kube.kubevirt import Devices, VirtualMachine, VirtualMachineInstance
from laneway.kube.resource import key_of

__all__ = ["Use", "VmState", "users_of"]

_ENDED = ("Succeeded", "Failed")


def users_of(world: World, name: str) -> tuple[Use, ...]:
    """The users of the device of this name (PCIDevice, VGPUDevice or USBDevice), sorted."""
    found: dict[Consumer, VmState] = {}
    for use in _uses(world, name):
        if use.consumer not in found or _ORDER[use.state] < _ORDER[found[use.consumer]]:
            found[use.consumer] = use.state
    return tuple(Use(consumer, found[consumer]) for consumer in sorted(found))


_ORDER = {state: place for place, state in enumerate(VmState)}


def _uses(world: World, name: str) -> Iterator[Use]:
    if not name:
        return
    for owner in _owners(world, name):
        yield Use(owner, VmState.RUNS)
    for instance in world.instances.by(DEVICE_NAME, name):
        if instance.status.phase not in _ENDED:
            yield Use(_vm(instance), VmState.RUNS)
    for vm in world.vms.by(DEVICE_NAME, name):
        state = _state(world, vm, name)
        if state is not None:
            yield Use(_vm(vm), state)


def _owners(world: World, name: str) -> Iterator[Consumer]:
    """To whom the kubelet gave it."""
    for device in (world.claims.get(name), world.vgpus.get(name), world.usb_claims.get(name)):
        given: Allocation | None = device.status.allocation if device is not None else None
        if given is None:
            continue
        if given.virtual_machine:
            yield Consumer(ConsumerKind.VM, given.namespace, given.virtual_machine)
        else:
            yield Consumer(ConsumerKind.POD, given.namespace, given.pod)


def _state(world: World, vm: VirtualMachine, name: str) -> VmState | None:
    """How a VM that the index found stands to the device."""
    devices = vm.spec.template.spec.domain.devices
    named = any(one.name == name for one in (*devices.host_devices, *devices.gpus))
    recorded = _recorded(vm)
    key = key_of(vm)
    instance = world.instances.get(key.name, key.namespace)
    if instance is not None and instance.status.phase not in _ENDED:
        # What it runs with may differ from what it names, which counts once it is stopped.
        return VmState.RUNS if any(one.name == name for one in recorded) else _pending(named)
    if vm.metadata.deletion_timestamp:
        return None
    left = allocation.still_requested(recorded, _requests(devices))
    if any(one.name == name for one in left):
        return VmState.STOPPED
    return _pending(named)


def _pending(named: bool) -> VmState | None:
    return VmState.NEVER_STARTED if named else None


def _recorded(vm: VirtualMachine) -> list[allocation.Held]:
    """The devices of its annotation; one that a hand has spoilt says nothing."""
    try:
        return allocation.devices_of(vm.metadata.annotations.get(keys.ANNOTATION_ALLOCATION, ""))
    except ValueError:
        return []


def _requests(devices: Devices) -> list[allocation.Request]:
    asked = (*devices.host_devices, *devices.gpus)
    return [allocation.Request(one.name, one.device_name) for one in asked if one.device_name]


def _vm(obj: VirtualMachine | VirtualMachineInstance) -> Consumer:
    key = key_of(obj)
    return Consumer(ConsumerKind.VM, key.namespace, key.name)
