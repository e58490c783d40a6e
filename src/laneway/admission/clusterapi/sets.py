"""The rules for MachineDeployments, MachineSets and control planes whose machines have devices.

A MachineSet of a MachineDeployment is not judged: the user of that was warned. A control plane
belongs to a Cluster, too, but that says nothing of how many machines it has.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import structs

from laneway.admission.capk import many as capk
from laneway.admission.capk.pools import is_ours
from laneway.admission.capv import many as capv
from laneway.admission.clusterapi.known import LABEL_CONTROL_PLANE, LABEL_DEPLOYMENT, LABEL_SET
from laneway.admission.clusterapi.many import AnySet, Name, read
from laneway.admission.request import Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Verdict
from laneway.admission.world import World
from laneway.api import ObjectMeta
from laneway.kube.clusterapi import KubeadmControlPlane, MachineDeployment, MachineSet

S = TypeVar("S", MachineDeployment, MachineSet, KubeadmControlPlane)

_TEMPLATE = "spec.template.spec.infrastructureRef.name"
_CONTROL_PLANE_TEMPLATE = "spec.machineTemplate.spec.infrastructureRef.name"


def judge_deployment(
    request: Request[MachineDeployment], world: World, _granted: Granted
) -> Verdict:
    """What there is to say of a MachineDeployment."""
    return _judge(request, world, LABEL_DEPLOYMENT, _TEMPLATE)


def judge_set(request: Request[MachineSet], world: World, _granted: Granted) -> Verdict:
    """What there is to say of a MachineSet."""
    new = request.new
    if new is not None and any(one.controller for one in new.metadata.owner_references):
        return ALLOWED
    return _judge(request, world, LABEL_SET, _TEMPLATE)


def judge_control_plane(
    request: Request[KubeadmControlPlane], world: World, _granted: Granted
) -> Verdict:
    """What there is to say of a control plane."""
    return _judge(request, world, LABEL_CONTROL_PLANE, _CONTROL_PLANE_TEMPLATE)


class _Replicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class Scale(msgspec.Struct, frozen=True):
    """How many machines a set is to have, as `kubectl scale` writes it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Replicas = _Replicas()


def judge_deployment_scale(request: Request[Scale], world: World, granted: Granted) -> Verdict:
    """The same of one that is only to have more machines, or fewer."""
    found = world.cluster_deployments.get(request.name, request.namespace)
    return ALLOWED if found is None else judge_deployment(_scaled(request, found), world, granted)


def judge_set_scale(request: Request[Scale], world: World, granted: Granted) -> Verdict:
    """The same of one that is only to have more machines, or fewer."""
    found = world.cluster_sets.get(request.name, request.namespace)
    return ALLOWED if found is None else judge_set(_scaled(request, found), world, granted)


def judge_control_plane_scale(request: Request[Scale], world: World, granted: Granted) -> Verdict:
    """The same of one that is only to have more machines, or fewer."""
    found = world.cluster_control_planes.get(request.name, request.namespace)
    return (
        ALLOWED if found is None else judge_control_plane(_scaled(request, found), world, granted)
    )


def _scaled(request: Request[Scale], found: S) -> Request[S]:
    def like(scale: Scale | None) -> S | None:
        if scale is None:
            return None
        spec = structs.replace(found.spec, replicas=scale.spec.replicas)
        return structs.replace(found, spec=spec)

    return Request(
        operation=request.operation,
        name=request.name,
        namespace=request.namespace,
        requester=request.requester,
        old=like(request.old),
        new=like(request.new),
    )


def knows(request: Request[AnySet], world: World) -> bool:
    """Whether the template of a set is known, as far as that matters."""
    new = request.new
    if new is None:
        return True
    many = read(new)
    known = capk.is_known if is_ours(many.template) else capv.is_known
    return known(many, request.namespace, world)


def _judge(request: Request[S], world: World, label: str, path: str) -> Verdict:
    new, old = request.new, request.old
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return ALLOWED
    name = Name(request.namespace, request.name or new.metadata.name, label, path)
    many = read(new)
    judge = capk.judge if is_ours(many.template) else capv.judge
    return judge(None if old is None else read(old), many, name, world)
