"""What MachineDeployments, MachineSets and control planes say of their Machines."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from laneway.kube.clusterapi import (
    LABEL_CLUSTER,
    KubeadmControlPlane,
    MachineDeployment,
    MachineSet,
    Reference,
    Rollout,
)

AnySet: TypeAlias = MachineDeployment | MachineSet | KubeadmControlPlane

_REPLICAS = 1
_SURGE = 1
"""Cluster API's defaults."""
_AT_ONCE = "RollingUpdate"
_TAKES_AWAY_FIRST = 3
"""So many machines a control plane must have for `maxSurge: 0`."""


class Many(NamedTuple):
    """A set of machines, whichever kind it is of."""

    replicas: int
    template: Reference
    cluster: str
    """Empty: unknown."""
    zone: str | None
    """Failure domain, empty for none; None: those of the cluster that are for control planes."""
    advice: str = ""
    """How it could be rolled out without room for one more; empty: it can."""
    unavailable: int = 1
    """So many machines may be missing while they are exchanged."""
    revision: object = None
    """Whatever else has Cluster API make new machines when it changes, such as the version."""
    after: str = ""
    """Machines that are older than this time are exchanged."""

    def is_like(self, other: Many) -> bool:
        """Whether the machines of one may stay as machines of the other."""
        return self.makes_like(other) and self.after == other.after

    def makes_like(self, other: Many) -> bool:
        """Whether both make the same machines."""
        mine, others = ((one.template, one.zone, one.revision) for one in (self, other))
        return mine == others


class Name(NamedTuple):
    """Which set it is, and how it is spoken of."""

    namespace: str
    name: str
    label: str
    """Of its Machines, which has its name."""
    path: str
    """Of the field that names the template."""


def read(one: AnySet) -> Many:
    """A set as it is judged."""
    replicas = _REPLICAS if one.spec.replicas is None else one.spec.replicas
    rollout = one.spec.rollout
    if isinstance(one, KubeadmControlPlane):
        advice = _advice_of_control_plane(rollout, replicas)
        return Many(
            replicas,
            one.spec.machine_template.spec.infrastructure_ref,
            one.metadata.labels.get(LABEL_CLUSTER, ""),
            None,
            advice,
            0 if advice else 1,
            (one.spec.version, one.spec.kubeadm_config_spec),
            rollout.after,
        )
    machine = one.spec.template.spec
    exchanges = isinstance(one, MachineDeployment) and rollout.strategy.type in ("", _AT_ONCE)
    advice, unavailable = _exchanged(rollout, replicas) if exchanges else ("", 1)
    return Many(
        replicas,
        machine.infrastructure_ref,
        one.spec.cluster_name,
        machine.failure_domain,
        advice,
        unavailable,
        (machine.version, machine.bootstrap),
        rollout.after,
    )


def _exchanged(rollout: Rollout, replicas: int) -> tuple[str, int]:
    """How to do without room for one more, and how many machines may be missing."""
    limits = rollout.strategy.rolling_update
    surge = _share(limits.max_surge, replicas, _SURGE, up=True)
    unavailable = _share(limits.max_unavailable, replicas, 0, up=False)
    if not surge or unavailable:
        return "", max(unavailable, 1)
    advice = "set maxSurge to 0 and maxUnavailable to 1 in spec.rollout.strategy.rollingUpdate."
    return advice, 0


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
