"""What of a VSphereVM its VSphereMachine says, too.

The steps of a VM in the making are reported by its own object: each would be a write, and an event
for all that watch the machine.
"""

from __future__ import annotations

from laneway.api import Condition, find_condition
from laneway.kube.capv import VSphereVM
from laneway.vsphere.machines.changes import generation_of
from laneway.vsphere.machines.conditions import (
    CLONING,
    DEVICES,
    NOT_PROVISIONED,
    POWERING_ON,
    PROVISIONED,
    Fact,
)

_MIRRORED = (PROVISIONED, DEVICES)
_UNDER_WAY = frozenset({CLONING, NOT_PROVISIONED, POWERING_ON})


def mirrored(vm: VSphereVM) -> list[Fact]:
    """The conditions of a VM as the machine has them."""
    found = (find_condition(vm.status.conditions, one) for one in _MIRRORED)
    return [_fact(one, vm) for one in found if one]


def _fact(one: Condition, vm: VSphereVM) -> Fact:
    is_step = one.type == PROVISIONED and one.reason in _UNDER_WAY
    message = f"See the conditions of VSphereVM {vm.metadata.name}" if is_step else one.message
    return Fact(one.type, one.status == "True", one.reason, message)


def is_under_way(vm: VSphereVM) -> bool:
    """Whether it soon says something else, if nothing goes wrong."""
    said = find_condition(vm.status.conditions, PROVISIONED)
    deleted = vm.metadata.deletion_timestamp is not None
    return not deleted and (said is None or said.reason in _UNDER_WAY)


def shown(vm: VSphereVM) -> object:
    """What its machine is to say, or to do something about."""
    meta, status = vm.metadata, vm.status
    about = meta.uid, meta.owner_references, generation_of(vm), vm.spec.bios_uuid
    return about, status.ready, status.addresses, status.pci_devices, mirrored(vm)
