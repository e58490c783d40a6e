"""The rules for KubevirtMachineTemplates: each is judged like a VM that is stopped.

What no VM may have is refused; that no node has the devices, free or not, is a warning. Where it is
not known that the VMs will be in this cluster, all of it is a warning. Whether a user may have the
devices is asked when CAPK makes a VM, of CAPK's account.
"""

from __future__ import annotations

from laneway.admission.capk.guests import as_made, nodes_of
from laneway.admission.capk.places import Place, place_of
from laneway.admission.request import Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Rules, Verdict
from laneway.admission.vms.devices import counted
from laneway.admission.vms.validate import NO_DEVICES, Case, judge_case, with_unseen
from laneway.admission.world import World
from laneway.core.ledger.explain import why_not
from laneway.core.ledger.room import Room
from laneway.core.phrases import shown
from laneway.core.refusals import FieldInvalid, Refusal
from laneway.kube.capk import GuestSpec, KubevirtMachineTemplate
from laneway.kube.clusterapi import LABEL_CLUSTER

_NEVER = "No VM of this template can start, even with all devices free: "


def judge(request: Request[KubevirtMachineTemplate], world: World, granted: Granted) -> Verdict:
    """What there is to say of a template that is made; CAPK lets none be changed."""
    new = request.new
    if request.operation is not Operation.CREATE or new is None:
        return ALLOWED
    vm = new.machine.virtual_machine_template.spec
    name = request.name or new.metadata.name
    if vm.template.spec.domain.devices != NO_DEVICES:
        cluster = new.metadata.labels.get(LABEL_CLUSTER, "")
        place = place_of(new, request.namespace, cluster, world)
        if place is Place.ELSEWHERE:
            return Verdict(warnings=(elsewhere(name),))
        guest, title = as_made(vm, world), f"{request.namespace}/{name}"
        # Whether there is room is asked of the machines that are made of it.
        case = Case(title, guest, NO_DEVICES, runs=False, vms=0, granted=True)
        verdict = judge_case(case, request.requester, world, granted)
        if verdict.allowed:
            verdict = Verdict(warnings=(*verdict.warnings, *_never(guest, world).warnings))
        verdict = verdict if place is Place.HERE else only_warned(verdict)
    else:
        verdict = ALLOWED
    return with_unseen(verdict, vm, None)


RULES = Rules(judge)


def _never(guest: GuestSpec, world: World) -> Verdict:
    """That no node has the devices of one VM, free or not."""
    ledger = world.ledger()
    resources = counted(guest.domain.devices.all)
    if ledger is None or not resources:
        return ALLOWED
    room = Room(ledger, resources, nodes_of(guest, ledger))
    for consumer in ledger.demands:
        room.release(consumer)
    return Verdict(warnings=tuple(f"{_NEVER}{one.words}" for one in why_not(ledger, room, 1)))


def only_warned(verdict: Verdict) -> Verdict:
    """The verdict about VMs of which it is not known that they will be here."""
    return Verdict(warnings=(*map(_told, verdict.refusals), *verdict.warnings))


def _told(refusal: Refusal) -> str:
    if isinstance(refusal, FieldInvalid):
        return f"{refusal.field}: {refusal.message}"
    return refusal.words


def elsewhere(template: str) -> str:
    """That nothing was judged."""
    return (
        f"The devices of KubevirtMachineTemplate {shown(template)} were not checked: its VMs are "
        "made in another cluster (infraClusterSecretRef), whose devices Laneway does not know here."
    )
