"""The kinds that are judged, and by what.

Our own, those of KubeVirt and Cluster API that request devices, and the cluster's Nodes, of which
one label is ours. Only its agent writes a DeviceNode, so there is nothing to judge about one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from laneway.admission import pods, recording
from laneway.admission.capk import templates as capk
from laneway.admission.capv import objects
from laneway.admission.capv import rules as capv
from laneway.admission.capv.mutate import mutation
from laneway.admission.clusterapi import sets
from laneway.admission.clusterapi.sets import S
from laneway.admission.json_patch import PatchOperation
from laneway.admission.judging import AnyKind, Change, Kind, Kinds, Mutate, read_request
from laneway.admission.request import Operation, Request
from laneway.admission.requesting import noting
from laneway.admission.review import Question
from laneway.admission.rules import (
    claims,
    gpus,
    hosts,
    layouts,
    migs,
    network,
    nodes,
    pci_devices,
    usb_claims,
    usb_devices,
    vgpus,
)
from laneway.admission.verdict import Judge, Rules
from laneway.admission.vms import aliases, pools, validate
from laneway.admission.vms.mutate import mutate as mutate_vm
from laneway.admission.world import World
from laneway.api import (
    CoreNode,
    DecodeError,
    HostPolicy,
    MigConfiguration,
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
    decode,
)
from laneway.controllers.ledger.objects import Pod
from laneway.core.raw import Json, at
from laneway.kube import capv as infrastructure
from laneway.kube import clusterapi
from laneway.kube.capk import KubevirtMachineTemplate
from laneway.kube.kubevirt import (
    GROUP,
    Devices,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceReplicaSet,
    VirtualMachinePool,
    features_of,
)
from laneway.kube.resource import Resource, T, served

_META = ("metadata",)
_Mutate = Callable[[Request[T]], Sequence[PatchOperation]]


def _typed(cls: type[T], mutate: _Mutate[T]) -> Mutate:
    """A mutation that wants the object decoded."""

    def mutated(question: Question, _world: World) -> Change:
        return Change(mutate(read_request(cls, Operation(question.operation), question)))

    return mutated


def _vm(question: Question, world: World) -> Change:
    """Virtual VMs have hundreds of fields that are not ours, so they stay JSON."""
    new = _plain(question.object)
    if new is None:
        raise DecodeError("VirtualMachine: there is no object in the review")
    features = features_of(world.installations)
    return Change(*mutate_vm(new, _plain(question.old_object), world, features=features))


def _noting(where: Sequence[str], template: Sequence[str], mutate: Mutate | None = None) -> Mutate:
    """A mutation that also notes who requests the devices of what `template` leads to.

    The annotations are those of the metadata that `where` leads to, which KubeVirt copies.
    """

    def mutated(question: Question, world: World) -> Change:
        change = Change() if mutate is None else mutate(question, world)
        raw, old = _plain(question.object), _plain(question.old_object)
        try:
            before = None if old is None else _asking(old, where, template)
            asking = _asking(raw, where, template)
        except DecodeError:
            return change  # The rule that judges it says so.
        users = recording.of_written(question.requester, asking, before, world)
        notes = recording.operations(raw, (*where, "annotations"), users, change.operations)
        return Change((*change.operations, *notes), change.warnings)

    return mutated


def _asking(raw: Json, where: Sequence[str], template: Sequence[str]) -> recording.Asking:
    """Raises DecodeError."""
    devices = decode(Devices, at(raw, (*template, "spec", "domain", "devices")) or {})
    return recording.Asking(devices, decode(ObjectMeta, at(raw, where) or {}))


def _instance(question: Question, world: World) -> Change:
    if question.operation != Operation.CREATE:
        return Change()
    request = read_request(VirtualMachineInstance, Operation.CREATE, question)
    users = recording.of_instance(request, world)
    raw = _plain(question.object)
    notes = recording.operations(raw, ("metadata", "annotations"), users)
    return Change([*aliases.renamed(raw), *notes])


def _plain(raw: msgspec.Raw | None) -> Json:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"VirtualMachine: {error}") from None


def _own(cls: type[T], rules: Rules[T]) -> Kind[T]:
    return Kind(served(cls).kind, cls, rules)


def _desired(cls: type[T], rules: Rules[T], mutate: _Mutate[T] | None = None) -> Kind[T]:
    """A kind of ours from whose spec writes to hardware follow."""
    return Kind(
        served(cls).kind, cls, rules, noting(None if mutate is None else _typed(cls, mutate))
    )


def _foreign(cls: type[T], rules: Rules[T], mutate: Mutate | None = None) -> Kind[T]:
    return Kind(cls.__name__, cls, rules, mutate, foreign=True, asks_for_devices=True)


def _clustered(where: objects.Where, rules: Rules[objects.Written]) -> AnyKind:
    group = infrastructure.GROUP
    return Kind(
        where.kind, objects.Written, rules, mutation(where), foreign=True, reported_as=group
    )


def _set(
    resource: Resource[S], judge: Judge[S], scale: Judge[sets.Scale]
) -> dict[tuple[str, str], AnyKind]:
    """A kind that has VMs, and what says how many."""
    group, plural, cls = resource.group, resource.plural, resource.type
    rules = Rules(judge, knows=sets.knows)
    return {
        (group, plural): Kind(cls.__name__, cls, rules, foreign=True, reported_as=group),
        (group, f"{plural}/scale"): Kind(
            cls.__name__, sets.Scale, Rules(scale), foreign=True, reported_as=group
        ),
    }


_OWN = (
    _desired(MigConfiguration, migs.RULES),
    _own(PCIDevice, pci_devices.RULES),
    _desired(PCIDeviceClaim, claims.RULES, claims.mutate),
    _desired(SRIOVGPUDevice, gpus.RULES),
    _desired(SRIOVNetworkDevice, network.RULES),
    _own(USBDevice, usb_devices.RULES),
    _desired(USBDeviceClaim, usb_claims.RULES, usb_claims.mutate),
    _desired(VGPUDevice, vgpus.RULES),
    _desired(VGPULayout, layouts.RULES),
    _desired(HostPolicy, hosts.RULES),
)
_FOREIGN: Kinds = {
    ("", "nodes"): Kind("Node", CoreNode, nodes.RULES, foreign=True),
    ("", "pods"): Kind("Pod", Pod, pods.RULES, pods.mutate, foreign=True),
    **{
        ("", f"pods/{part}"): Kind("Pod", Pod, pods.CHANGED, foreign=True)
        for part in ("binding", "ephemeralcontainers", "resize", "status")
    },
    (GROUP, "virtualmachines"): _foreign(
        VirtualMachine,
        Rules(validate.judge, validate.asks, validate.knows),
        _noting(_META, ("spec", "template"), _vm),
    ),
    (GROUP, "virtualmachineinstances"): _foreign(
        VirtualMachineInstance,
        Rules(pools.judge_instance, pools.asks_instance, pools.knows_instance),
        _instance,
    ),
    (GROUP, "virtualmachineinstancereplicasets"): _foreign(
        VirtualMachineInstanceReplicaSet,
        Rules(pools.judge_replica_set, pools.asks_replica_set),
        _noting(("spec", "template", *_META), ("spec", "template")),
    ),
    ("pool.kubevirt.io", "virtualmachinepools"): _foreign(
        VirtualMachinePool,
        Rules(pools.judge_pool, pools.asks_pool),
        _noting(
            ("spec", "virtualMachineTemplate", *_META),
            ("spec", "virtualMachineTemplate", "spec", "template"),
        ),
    ),
    (infrastructure.GROUP, "vspheremachines"): _clustered(objects.MACHINES, capv.MACHINE_RULES),
    (infrastructure.GROUP, "vspheremachinetemplates"): _clustered(
        objects.TEMPLATES, capv.TEMPLATE_RULES
    ),
    (infrastructure.GROUP, "vspherevms"): _clustered(objects.VMS, capv.VM_RULES),
    (infrastructure.GROUP, "kubevirtmachinetemplates"): _foreign(
        KubevirtMachineTemplate, capk.RULES
    ),
    **_set(clusterapi.MACHINE_DEPLOYMENTS, sets.judge_deployment, sets.judge_deployment_scale),
    **_set(clusterapi.MACHINE_SETS, sets.judge_set, sets.judge_set_scale),
    **_set(clusterapi.CONTROL_PLANES, sets.judge_control_plane, sets.judge_control_plane_scale),
}

KINDS: Kinds = {
    **{(served(kind.type).group, served(kind.type).plural): kind for kind in _OWN},
    **_FOREIGN,
}
