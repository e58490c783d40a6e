"""Who requests devices: VMs, whether they run or not, and pods of other kinds.

A VM that runs has what its instance requests; its own object may have been edited
since, and counts again when it is stopped. The pod in which it runs is no demand of its own. What
has ended requests nothing any more, and neither does a stopped VM that is being deleted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from laneway.api import find_condition
from laneway.controllers.ledger.objects import Container, Pod
from laneway.core import allocation, keys
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, Phase
from laneway.core.names import is_instance_resource
from laneway.kube.kubevirt import (
    LABEL_CREATED_BY,
    Devices,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.pods import together
from laneway.kube.resource import Key, key_of

ENDED = ("Succeeded", "Failed")
_COUNT = re.compile(r"\+?([0-9]{1,12})([kMG]?)")
_THOUSANDS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def of_vms(
    vms: Iterable[VirtualMachine],
    instances: Iterable[VirtualMachineInstance],
    pods: Iterable[Pod],
) -> Iterator[Demand]:
    """Every VM, also those that request nothing, and instances without one."""
    places = {
        uid: pod.spec.node_name
        for pod in pods
        if (uid := pod.metadata.labels.get(LABEL_CREATED_BY)) and pod.status.phase not in ENDED
    }
    unseen = {key_of(instance): instance for instance in instances}
    pairs = [(vm, unseen.pop(key_of(vm), None)) for vm in vms]
    for vm, instance in (*pairs, *((None, instance) for instance in unseen.values())):
        demand = of_vm(vm, instance, lambda uid: places.get(uid, ""))
        if demand is not None:
            yield demand


def of_vm(
    vm: VirtualMachine | None,
    instance: VirtualMachineInstance | None,
    place: Callable[[str], str],
) -> Demand | None:
    """One VM, or an instance without one. `place`: the node of the pod of an instance."""
    if instance is not None and instance.status.phase not in ENDED:
        demand = _active(instance, place)
        if vm is None:
            return demand
        return msgspec.structs.replace(
            demand,
            created=vm.metadata.creation_timestamp,
            labels=vm.metadata.labels,
            stopping=demand.stopping
            or vm.spec.run_strategy == "Halted"
            or vm.spec.running is False,
        )
    if vm is None or vm.metadata.deletion_timestamp:
        return None
    return _inactive(vm, instance)


def of_pod(pod: Pod, resources: Collection[str]) -> Demand | None:
    """A pod that requests some of these resources and runs no VM."""
    return _of_pod(pod, lambda name: name in resources)


def of_container_pod(pod: Pod) -> Demand | None:
    """A pod that requests GPU instances, which no device of Laneway stands for."""
    return _of_pod(pod, is_instance_resource)


def _of_pod(pod: Pod, counts: Callable[[str], bool]) -> Demand | None:
    if pod.status.phase in ENDED or LABEL_CREATED_BY in pod.metadata.labels:
        return None
    requests = {name: count for name, count in limits_of(pod).items() if counts(name)}
    if not requests:
        return None
    key = key_of(pod)
    return Demand(
        Consumer(ConsumerKind.POD, key.namespace, key.name),
        Phase.RUNNING if pod.status.phase == "Running" else Phase.PENDING,
        requests,
        node=pod.spec.node_name,
        selector=pod.spec.node_selector,
        created=pod.metadata.creation_timestamp,
        labels=pod.metadata.labels,
    )


def limits_of(pod: Pod) -> Mapping[str, int]:
    """As the scheduler counts (`together`)."""
    spec = pod.spec
    return together(
        map(limits_of_container, spec.containers),
        (
            (limits_of_container(one), one.restart_policy == "Always")
            for one in spec.init_containers
        ),
    )


def limits_of_container(container: Container) -> Counter[str]:
    """What one container requests."""
    return Counter(
        {name: _count(quantity) for name, quantity in container.resources.limits.items()}
    )


def _count(quantity: str | float) -> int:
    """A whole number; what is none requests nothing."""
    found = _COUNT.fullmatch(str(quantity))
    return int(found[1]) * _THOUSANDS[found[2]] if found else 0


def _active(instance: VirtualMachineInstance, place: Callable[[str], str]) -> Demand:
    pending = instance.status.phase in ("", "Pending", "Scheduling", "Scheduled")
    return Demand(
        consumer_of(key_of(instance)),
        Phase.PENDING if pending else Phase.RUNNING,
        _requests(instance.spec.domain.devices),
        node=instance.status.node_name or place(instance.metadata.uid),
        selector=instance.spec.node_selector,
        created=instance.metadata.creation_timestamp,
        labels=instance.metadata.labels,
        migratable=is_migratable(instance),
        stopping=bool(instance.metadata.deletion_timestamp),
    )


def is_migratable(instance: VirtualMachineInstance) -> bool | None:
    """Whether KubeVirt can migrate it: what it says itself decides when a migration is requested.

    That covers devices, disks, networks and CPU. Its releases so far say no for every VM with
    devices; its enhancement 109 plans a yes for one with a single vGPU on a mediated device.
    `evictionStrategy` decides only what a drain of the node does.
    """
    said = find_condition(instance.status.conditions, "LiveMigratable")
    return {"True": True, "False": False}.get(said.status) if said is not None else None


def _inactive(vm: VirtualMachine, ended: VirtualMachineInstance | None) -> Demand:
    spec = vm.spec.template.spec
    return Demand(
        consumer_of(key_of(vm)),
        Phase.PENDING if _is_to_run(vm, ended) else Phase.STOPPED,
        _requests(spec.domain.devices),
        selector=spec.node_selector,
        last=_last(vm),
        created=vm.metadata.creation_timestamp,
        labels=vm.metadata.labels,
    )


def _is_to_run(vm: VirtualMachine, ended: VirtualMachineInstance | None) -> bool:
    """Whether KubeVirt is about to start a VM that does not run."""
    match vm.spec.run_strategy:
        case "Always":
            return True
        case "RerunOnFailure":
            done = ended is not None and ended.status.phase == "Succeeded"
            return not done and vm.status.printable_status != "Stopped"
        case "Once":
            return ended is None and vm.status.printable_status != "Stopped"
        case _:
            return vm.spec.running is True


def _requests(devices: Devices) -> Mapping[str, int]:
    asked = (*devices.host_devices, *devices.gpus)
    return Counter(one.device_name for one in asked if one.device_name)


def _last(vm: VirtualMachine) -> tuple[str, ...]:
    """The devices that it had when it ran; a record that was spoilt by hand says nothing."""
    text = vm.metadata.annotations.get(keys.ANNOTATION_ALLOCATION, "")
    try:
        return tuple(device.name for device in allocation.devices_of(text))
    except ValueError:
        return ()


def consumer_of(key: Key) -> Consumer:
    """The consumer that a VM is."""
    return Consumer(ConsumerKind.VM, key.namespace, key.name)
