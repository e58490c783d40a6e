"""Whether there is room for the machines that a set is to have, and for exchanging them.

A set is judged when it is to have more machines, or others. Machines that it has and that stay as
they are need nothing new; where it is to have others, what the old ones have is theirs in the end.
A roll-out that first makes a new machine needs room in addition to the old ones: where there is
none, that is said in time, and never refused, because it is a matter of how and not of what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from laneway.admission.capv.rules import findings, impossible
from laneway.admission.capv.supply import Scope, of_machines
from laneway.admission.capv.zones import Anywhere, Zones, of_control_plane
from laneway.admission.clusterapi.known import SET
from laneway.admission.clusterapi.many import Many, Name
from laneway.admission.verdict import ALLOWED, Verdict
from laneway.admission.world import World
from laneway.core.phrases import listed
from laneway.core.vsphere.inventory.offers import shown
from laneway.core.vsphere.spec import parsing
from laneway.core.vsphere.spec.parsing import Problem
from laneway.core.vsphere.spec.requests import Requested
from laneway.core.vsphere.spec.validation import TEMPLATE
from laneway.kube.capv import GROUP, VSphereMachineTemplate
from laneway.kube.clusterapi import Reference


class _Case(NamedTuple):
    """One set with devices."""

    replicas: int
    requested: Requested
    supply: Anywhere
    own: Mapping[str, str]
    """Its machines that have reserved devices, as reservations name them, and in which failure
    domain they are."""
    had: int
    """So many machines it had to have until now."""
    others: bool
    """Whether they are to be other ones than they were."""

    @property
    def coming(self) -> int:
        """So many machines are still to be made, in addition to those that it has."""
        if self.own and not self.others:
            return self.replicas - len(self.own)
        # It is not known which devices the old ones have, only that they have some.
        return self.replicas - self.had


def is_known(new: Many, namespace: str, world: World) -> bool:
    """Whether the template of a set is known, as far as that matters."""
    if not (len(world.vcenters) or len(world.vsphere_hosts)):
        return True
    return not _is_ours(new.template) or _template(new, namespace, world) is not None


def judge(old: Many | None, new: Many, which: Name, world: World) -> Verdict:
    """What there is to say of a set that is made, or changed."""
    if old is not None and new.is_like(old) and new.replicas <= old.replicas:
        return ALLOWED
    template = _template(new, which.namespace, world)
    if template is None or not new.replicas:
        return ALLOWED
    machine = template.spec.template.spec
    requested, _ = parsing.read(
        machine.pci_devices,
        pcidevices=machine.pcidevices,
        vgpudevices=machine.vgpudevices,
        peer_to_peer=machine.peer_to_peer,
    )
    if not requested.devices:
        return ALLOWED
    scope = Scope(which.namespace, new.cluster, machine.server)
    supply = _supply(world, scope, new.zone, machine.datacenter)
    if supply is None:
        return ALLOWED
    if not supply.known:
        return Verdict(warnings=(supply.unknown,))
    with_reservation = supply.with_reservation
    case = _Case(
        replicas=new.replicas,
        requested=requested,
        supply=supply,
        own={name: zone for name, zone in _own(world, which) if name in with_reservation},
        had=0 if old is None else old.replicas,
        others=old is not None and not new.is_like(old),
    )
    if never := impossible(supply.refusal, requested, which.path):
        # Paths of a template's items are none of the set's.
        return findings((one._replace(path=which.path) for one in never), world)
    if short := _short(case):
        return findings(short, world)
    return Verdict(warnings=_roll_out(case, which.name, new.advice))


def _template(one: Many, namespace: str, world: World) -> VSphereMachineTemplate | None:
    ref = one.template
    return world.vsphere_templates.get(ref.name, namespace) if _is_ours(ref) else None


def _is_ours(ref: Reference) -> bool:
    return ref.kind == TEMPLATE and ref.api_group == GROUP


def _supply(world: World, scope: Scope, zone: str | None, datacenter: str) -> Anywhere | None:
    if zone is None:
        return of_control_plane(world, scope, datacenter)
    return of_machines(world, scope, zone, datacenter)


def _own(world: World, which: Name) -> list[tuple[str, str]]:
    """VSphereVMs are named like the VSphereMachines of the set's Machines."""
    machines = world.cluster_machines.by(SET, (which.namespace, which.label, which.name))
    return [
        (f"{which.namespace}/{one.spec.infrastructure_ref.name}", one.spec.failure_domain)
        for one in machines
    ]


def _short(case: _Case) -> tuple[Problem, ...]:
    """That there is not room for so many, if so."""
    if case.others and case.own:
        missing, supply, there = case.replicas, case.supply.without(case.own), Counter[str]()
    else:
        missing, supply, there = case.coming, case.supply, Counter(case.own.values())
    if isinstance(supply, Zones):
        supply = supply.evenly(case.replicas, there)
    room = supply.room(case.requested) if missing > 0 else 0
    if room >= missing:
        return ()
    more = "" if missing == case.replicas else " more"
    each = listed(
        f"{count} x {shown(request)}" for request, count in Counter(case.requested.devices).items()
    )
    words = (
        f"hosts have room for {room} of {missing}{more} Machines that each request {each}; the "
        f"rest waits. {supply.why(case.requested)}"
    )
    return (Problem("spec.replicas", case.replicas, words.rstrip()),)


def _roll_out(case: _Case, name: str, advice: str) -> tuple[str, ...]:
    """That new machines could not be made while the old ones exist, if so."""
    if not advice or case.supply.room(case.requested) > (0 if case.others else case.coming):
        return ()
    words = (
        f"A rollout of {name} creates a new Machine before it deletes an old one, and no host "
        f"has room for one more with these devices: {advice}"
    )
    return (words,)
