"""The rules for MachineDeployments, MachineSets and control planes with devices of a vCenter.

A MachineSet of a MachineDeployment is not judged: the user of that was warned. A control plane
belongs to a Cluster, too, but that says nothing of how many machines it has.
"""

from __future__ import annotations

import math
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import structs

from laneway.admission.capv import many
from laneway.admission.capv.known import LABEL_CONTROL_PLANE, LABEL_DEPLOYMENT, LABEL_SET
from laneway.admission.capv.many import Many, Name
from laneway.admission.request import Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Verdict
from laneway.admission.world import World
from laneway.api import ObjectMeta
from laneway.kube.clusterapi import (
    LABEL_CLUSTER,
    KubeadmControlPlane,
    MachineDeployment,
    MachineSet,
    Rollout,
)

AnySet: TypeAlias = MachineDeployment | MachineSet | KubeadmControlPlane
S = TypeVar("S", MachineDeployment, MachineSet, KubeadmControlPlane)

_REPLICAS = 1
_SURGE = 1
"""Cluster API's defaults."""
_AT_ONCE = "RollingUpdate"
_TAKES_AWAY_FIRST = 3
"""So many machines a control plane must have for `maxSurge: 0`."""
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
    return new is None or many.is_known(_read(new), request.namespace, world)


def _judge(request: Request[S], world: World, label: str, path: str) -> Verdict:
    new, old = request.new, request.old
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return ALLOWED
    name = Name(request.namespace, request.name or new.metadata.name, label, path)
    return many.judge(None if old is None else _read(old), _read(new), name, world)


def _read(one: AnySet) -> Many:
    replicas = _REPLICAS if one.spec.replicas is None else one.spec.replicas
    if isinstance(one, KubeadmControlPlane):
        return Many(
            replicas,
            one.spec.machine_template.spec.infrastructure_ref,
            one.metadata.labels.get(LABEL_CLUSTER, ""),
            None,
            _advice_of_control_plane(one.spec.rollout, replicas),
            (one.spec.version, one.spec.kubeadm_config_spec, one.spec.rollout.after),
        )
    machine = one.spec.template.spec
    advice = ""
    if isinstance(one, MachineDeployment):
        advice = _advice(one.spec.rollout, replicas)
    ref, zone = machine.infrastructure_ref, machine.failure_domain
    revision = machine.version, machine.bootstrap, one.spec.rollout.after
    return Many(replicas, ref, one.spec.cluster_name, zone, advice, revision)


def _advice(rollout: Rollout, replicas: int) -> str:
    strategy = rollout.strategy
    if strategy.type not in ("", _AT_ONCE):
        return ""
    limits = strategy.rolling_update
    surge = _share(limits.max_surge, replicas, _SURGE, up=True)
    if not surge or _share(limits.max_unavailable, replicas, 0, up=False):
        return ""
    return "set maxSurge to 0 and maxUnavailable to 1 in spec.rollout.strategy.rollingUpdate."


def _advice_of_control_plane(rollout: Rollout, replicas: int) -> str:
    if _share(rollout.strategy.rolling_update.max_surge, replicas, _SURGE, up=True) == 0:
        return ""
    if replicas < _TAKES_AWAY_FIRST:
        return (
            "keep the devices of one Machine free; maxSurge 0 requires "
            f"{_TAKES_AWAY_FIRST} replicas or more."
        )
    return "set maxSurge to 0 in spec.rollout.strategy.rollingUpdate."


def _share(value: int | str | None, of: int, default: int, *, up: bool) -> int:
    """A number, or a percentage; what is neither counts as the default."""
    match value:
        case int():
            return value
        case str() if value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
            share = int(value[:6].rstrip("%")) * of / 100
            return math.ceil(share) if up else math.floor(share)
        case _:
            return default
