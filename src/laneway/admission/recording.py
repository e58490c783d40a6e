"""The users who request devices: recorded where they are known, taken over where they are not.

KubeVirt's controller makes instances and their pods in its own name, and a kubelet requests devices
without naming a user. So the user who writes a VM is recorded on it (`core.requesters`); the record
goes from a pool to its VMs, from a VM to its instance and from there to the pod, each time taken
from the object that is known, not from what the new one says. A VM that was stored while the
webhook did not answer has no record, and its instance has no requester.

Machines from before there were records bear the mark that admission had looked at their devices.
They count as written by the owners of the devices that they request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.admission.json_patch import PatchOperation, put, remove
from laneway.admission.request import Request, Requester
from laneway.admission.vms import makers
from laneway.admission.vms.claimed import pool_of, user_of
from laneway.admission.vms.devices import added, named
from laneway.admission.world import World
from laneway.api import ObjectMeta, OwnerReference
from laneway.controllers.claims.claim_users import EVERYBODY
from laneway.core import keys
from laneway.core.raw import Json, at
from laneway.core.refusals import AnnotationReserved, Refusal
from laneway.core.requesters import User, read, written
from laneway.kube.kubevirt import (
    ANNOTATION_ADMITTED,
    GROUP,
    Devices,
    VirtualMachine,
    VirtualMachineInstance,
    mark_of,
)
from laneway.kube.resource import KubeObject

KEY = keys.ANNOTATION_REQUESTERS
_Annotations = Mapping[str, str]


def user(requester: Requester) -> User:
    return User(requester.username, tuple(requester.groups))


class Asking(NamedTuple):
    """The part of a VM, a pool or a replica set that is about devices."""

    devices: Devices
    metadata: ObjectMeta
    """Whose annotations KubeVirt copies."""

    @property
    def annotations(self) -> _Annotations:
        return self.metadata.annotations


def of_written(
    requester: Requester, asking: Asking, old: Asking | None, world: World
) -> tuple[User, ...]:
    """The users who request the devices of an object that is written.

    Who adds devices requests them; those that stay were requested by others. Who writes the note
    again takes all of them over.
    """
    if not asking.devices.all:
        return ()
    if old is None and makers.is_copy(requester, asking.metadata, world):
        return read(asking.annotations)  # From the pool, where it was looked at.
    if old is None:
        return (user(requester),)
    users = before = known(old.devices, old.annotations, world)
    if more := len(list(added(asking.devices, old.devices))):
        users = (*(before if more < len(asking.devices.all) else ()), user(requester))
    said = asking.annotations.get(KEY, "")
    # Who writes the whole object need not know of the note.
    is_taken_over = said not in ("", old.annotations.get(KEY), written(users))
    return (user(requester),) if is_taken_over else users


def changed(
    title: str, requester: Requester, asking: Asking, old: Asking | None, world: World
) -> Iterator[Refusal]:
    """That the note of something that is written is not as admission would have it."""
    if KEY not in asking.annotations or (
        old is None and makers.is_copy(requester, asking.metadata, world)
    ):
        return
    noted = read(asking.annotations)
    before = known(old.devices, old.annotations, world) if old is not None else ()
    if not noted or not {*noted} <= {*before, user(requester)}:
        yield AnnotationReserved(title, KEY)


def is_seen(devices: Devices, old: Asking | None) -> bool:
    """Whether admission knows all of these devices once it has looked at those that are added."""
    if old is None or len(list(added(devices, old.devices))) == len(devices.all):
        return True
    return old.annotations.get(ANNOTATION_ADMITTED) == mark_of(old.devices)


def marked(title: str, asking: Asking, old: Asking | None) -> Iterator[Refusal]:
    """That a mark says admission has looked at devices at which it has not."""
    mark = mark_of(asking.devices)
    is_marked = bool(mark) and asking.annotations.get(ANNOTATION_ADMITTED) == mark
    if is_marked and not is_seen(asking.devices, old):
        yield AnnotationReserved(title, ANNOTATION_ADMITTED)


def is_taken_over(requester: Requester, annotations: _Annotations, before: _Annotations) -> bool:
    """Whether a user requests devices now who did not request all of them before."""
    said = annotations.get(KEY)
    return said != before.get(KEY) and said == written((user(requester),))


def known(devices: Devices, annotations: _Annotations, world: World) -> tuple[User, ...]:
    """The users who request a stored object's devices; none, where it was not judged."""
    if found := read(annotations):
        return found
    mark = mark_of(devices)
    if not mark or annotations.get(ANNOTATION_ADMITTED) != mark:
        return ()
    users = set[str]()
    for one in devices.all:
        device = named(world, one)
        claim = (device.claim or device.usb_claim) if device is not None else None
        if claim is not None:
            users.add(user_of(claim, world))
        else:
            users.update(pool_of(one.device_name, world).users)
    return tuple(User(name) for name in sorted(users - {EVERYBODY}))


def is_started(request: Request[VirtualMachineInstance], world: World) -> bool:
    """Whether KubeVirt says that an instance is of a VM."""
    return next(_starters(request, world), None) is not None


def starter(request: Request[VirtualMachineInstance], world: World) -> VirtualMachine | None:
    """The VM that an instance is of, if KubeVirt says so and the VM is known."""
    for owner in _starters(request, world):
        vm = world.vms.get(owner.name, request.namespace)
        if vm is not None and vm.metadata.uid == owner.uid:
            return vm
    return None


def _starters(request: Request[VirtualMachineInstance], world: World) -> Iterator[OwnerReference]:
    """The VMs that control an instance, as KubeVirt says; no other client is believed."""
    if makers.is_kubevirt(request.requester, world):
        for owner in request.object.metadata.owner_references:
            if owner.kind == "VirtualMachine" and owner.controller:
                yield owner


def of_instance(request: Request[VirtualMachineInstance], world: World) -> tuple[User, ...]:
    """The users who request an instance's devices."""
    new = request.object
    if not new.spec.domain.devices.all:
        return ()
    if makers.copies(request, world):
        return read(new.metadata.annotations)  # From the replica set, where it was looked at.
    if not makers.is_kubevirt(request.requester, world):
        return (user(request.requester),)
    vm = starter(request, world)
    if vm is None:
        return ()
    return known(vm.spec.template.spec.domain.devices, vm.metadata.annotations, world)


def instance_of(
    request: Request[KubeObject], world: World
) -> tuple[bool, VirtualMachineInstance | None]:
    """Whether KubeVirt makes a pod for an instance, and the instance if it is known."""
    if not makers.is_kubevirt(request.requester, world):
        return False, None
    for owner in request.object.metadata.owner_references:
        if owner.controller and owner.kind == "VirtualMachineInstance":
            if owner.api_version.partition("/")[0] != GROUP:
                continue
            found = world.instances.get(owner.name, request.namespace)
            is_it = found is not None and found.metadata.uid == owner.uid
            return True, found if is_it else None
    return False, None


def operations(
    raw: Json, path: Sequence[str], users: Sequence[User], before: Sequence[PatchOperation] = ()
) -> Iterator[PatchOperation]:
    """Have annotations at a path say so, after other operations on the same object."""
    there, text = at(raw, (*path, KEY)), written(users)
    if not text:
        if there is not None:
            yield remove((*path, KEY))
        return
    if there == text:
        return
    pointer = "".join(f"/{part}" for part in path)
    if any(one["op"] == "add" and one["path"] == pointer for one in before):
        # They have made the annotations, which were not there.
        yield {"op": "add", "path": f"{pointer}/{KEY.replace('/', '~1')}", "value": text}
    else:
        yield put(raw, (*path, KEY), text)


def rewritten(title: str, request: Request[KubeObject]) -> Iterator[Refusal]:
    """That a note is changed where it stays as it was made."""
    if request.new is None:
        return
    before = request.old.metadata.annotations.get(KEY) if request.old is not None else None
    if request.new.metadata.annotations.get(KEY) != before:
        yield AnnotationReserved(title, KEY)


def refused(title: str, annotations: _Annotations, users: Sequence[User]) -> Iterator[Refusal]:
    """That a note says something else than these."""
    if KEY in annotations and annotations[KEY] != written(users):
        yield AnnotationReserved(title, KEY)
