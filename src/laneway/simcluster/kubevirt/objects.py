"""KubeVirt's objects as its own controllers see them: what they do not decide on stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.api import ObjectMeta, decode
from laneway.core.raw import JsonObject
from laneway.kube.kubevirt import (
    GROUP,
    InstanceSpec,
    InstanceStatus,
    MigrationState,
    VirtualMachineStatus,
)
from laneway.kube.resource import Resource

FINAL = frozenset({"Succeeded", "Failed"})
"""Phases of an instance that never runs again."""
FINALIZER_VM = "kubevirt.io/virtualMachineControllerFinalize"
FINALIZER_INSTANCE = "foregroundDeleteVirtualMachine"
LABEL_LAUNCHER = "kubevirt.io"
"""`virt-launcher` on every pod that runs an instance."""
LABEL_NODE = "kubevirt.io/nodeName"
"""On an instance: where it runs."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object of KubeVirt's."""


class Template(_Part, frozen=True, kw_only=True):
    """What an instance is made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}


class VmSpec(_Part, frozen=True, kw_only=True):
    """The desired state."""

    running: bool | None = None
    run_strategy: str = ""
    template: Template = Template()


class ChangeRequest(_Part, frozen=True, kw_only=True):
    """What the subresource API asks of the controller, where no field of the spec says it."""

    action: str = ""
    """Start or Stop."""
    uid: str | None = None
    """Of the instance that is to stop."""


class VmStatus(VirtualMachineStatus, frozen=True, kw_only=True):
    """What this controller says."""

    run_strategy: str = ""
    observed_generation: int = 0
    state_change_requests: Sequence[ChangeRequest] = ()
    """The first of them counts; the controller removes it when it is done."""


class Vm(_Part, frozen=True, kw_only=True):
    """A VirtualMachine."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VmSpec = VmSpec()
    status: VmStatus = VmStatus()


class Status(InstanceStatus, frozen=True, kw_only=True):
    """Where an instance is, and where it went."""

    evacuation_node_name: str = ""
    """The node that it is to leave; set when its pod was to be evicted."""
    migration_state: MigrationState | None = None


class Instance(_Part, frozen=True, kw_only=True):
    """A VirtualMachineInstance."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}
    status: Status = Status()


VMS = Resource(GROUP, "v1", "virtualmachines", True, Vm, "VirtualMachine")
INSTANCES = Resource(
    GROUP, "v1", "virtualmachineinstances", True, Instance, "VirtualMachineInstance"
)


def desired(instance: Instance) -> InstanceSpec:
    """The part of an instance's spec that is about devices and places."""
    return decode(InstanceSpec, msgspec.json.encode(instance.spec))


def owner(meta: ObjectMeta) -> str:
    """The uid of the object that controls another; empty without one."""
    return next((one.uid for one in meta.owner_references if one.controller), "")


def owned_by(kind: str, meta: ObjectMeta) -> list[JsonObject]:
    """The owner references of what an object of KubeVirt's makes."""
    return [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": kind,
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
