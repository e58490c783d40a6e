"""Sets of CAPK's machines as pools: what their VMs request, and which there are already."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from laneway.admission.capk.guests import as_made, nodes_of
from laneway.admission.capk.places import Place, place_of
from laneway.admission.clusterapi.known import (
    LABEL_CONTROL_PLANE,
    LABEL_DEPLOYMENT,
    LABEL_SET,
    SET,
)
from laneway.admission.clusterapi.many import AnySet, Many, Name, read
from laneway.admission.vms.devices import counted
from laneway.admission.vms.number import LIMIT
from laneway.admission.world import World
from laneway.core.ledger.facts import Consumer, ConsumerKind, Phase
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools import pool
from laneway.kube.capk import GROUP, TEMPLATE, KubevirtMachineTemplate
from laneway.kube.clusterapi import Machine, Reference
from laneway.kube.kubevirt import Devices
from laneway.kube.store import Store

_Sets: TypeAlias = tuple[tuple[str, Store[AnySet]], ...]


class Wanted(NamedTuple):
    """A set whose VMs have devices."""

    which: Name
    new: Many
    template: KubevirtMachineTemplate
    devices: Devices
    """Of each VM; as it will be stored, unless there are too many."""
    old: Many | None = None
    """What it was until now."""

    @property
    def namespace(self) -> str:
        """Of its VMs."""
        meta = self.template.machine.virtual_machine_template.metadata
        return meta.namespace or self.which.namespace


def is_ours(template: Reference) -> bool:
    """Whether CAPK makes the machines of a template."""
    return template.kind == TEMPLATE and template.api_group == GROUP


def wanted(
    which: Name, new: Many, template: KubevirtMachineTemplate, world: World
) -> Wanted | None:
    """A set; None where its VMs have no devices."""
    vm = template.machine.virtual_machine_template.spec
    devices = vm.template.spec.domain.devices
    if not counted(devices.all):
        return None
    if len(devices.all) <= LIMIT:
        devices = as_made(vm, world).domain.devices
    return Wanted(which, new, template, devices)


def pool_of(found: Wanted, ledger: Ledger, world: World, name: str = "") -> pool.Pool:
    """A set as it is judged; of its own name, unless another is given."""
    guest = found.template.machine.virtual_machine_template.spec.template.spec
    return pool.Pool(
        name=name or found.which.name,
        quantity=max(found.new.replicas, 0),
        devices=counted(found.devices.all),
        unavailable=found.new.unavailable,
        nodes=nodes_of(guest, ledger),
        machines=tuple(_machines(found, ledger, world)),
    )


def others(which: Name, ledger: Ledger, world: World) -> Iterator[pool.Pool]:
    """All other sets that are still to get machines.

    Who writes one set need not know those of other namespaces, so these are not named.
    """
    hidden = itertools.count(1)
    sets: _Sets = (
        (LABEL_DEPLOYMENT, world.cluster_deployments),
        (LABEL_SET, world.cluster_sets),
        (LABEL_CONTROL_PLANE, world.cluster_control_planes),
    )
    mine = which.namespace, which.label, which.name
    for label, store in sets:
        for one in store:
            meta = one.metadata
            if (meta.namespace, label, meta.name) == mine or meta.deletion_timestamp:
                continue
            if label == LABEL_SET and any(ref.controller for ref in meta.owner_references):
                continue
            found = _found(Name(meta.namespace, meta.name, label, ""), read(one), world)
            if found is None:
                continue
            other = pool_of(found, ledger, world, f"{meta.namespace}/{meta.name}")
            if not other.coming:
                continue
            if meta.namespace != which.namespace:
                other = replace(other, name=f"set {next(hidden)} of other namespaces")
            yield other


def _found(which: Name, many: Many, world: World) -> Wanted | None:
    if not is_ours(many.template):
        return None
    template = world.kubevirt_templates.get(many.template.name, which.namespace)
    if template is None:
        return None
    if place_of(template, which.namespace, many.cluster, world) is not Place.HERE:
        return None
    return wanted(which, many, template, world)


def _machines(found: Wanted, ledger: Ledger, world: World) -> Iterator[pool.Machine]:
    """A machine's VM has the name of its KubevirtMachine."""
    which = found.which
    for one in world.cluster_machines.by(SET, (which.namespace, which.label, which.name)):
        vm = Consumer(ConsumerKind.VM, found.namespace, one.spec.infrastructure_ref.name)
        demand = ledger.demands.get(vm)
        if demand is None:
            continue
        yield pool.Machine(
            vm,
            stays=not one.metadata.deletion_timestamp and _stays(found, one, world),
            placed=bool(demand.node) or demand.phase is Phase.STOPPED,
            created=demand.created,
        )


def _stays(found: Wanted, machine: Machine, world: World) -> bool:
    """Whether Cluster API leaves a machine as it is."""
    new, old = found.new, found.old
    meta = machine.metadata
    if found.which.label == LABEL_SET:
        return True  # A MachineSet makes others only in addition.
    if new.after and meta.creation_timestamp < new.after:
        return False
    if found.which.label == LABEL_DEPLOYMENT:
        made_by = world.cluster_sets.get(meta.labels.get(LABEL_SET, ""), meta.namespace)
        if made_by is not None:
            return read(made_by).makes_like(new)
    return old is None or new.makes_like(old)
