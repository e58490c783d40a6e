"""The rules for KubevirtMachineTemplates: each is judged like a VM that is stopped.

What no VM may have is refused, what none could have now is a warning. Where it is not known that
the VMs will be in this cluster, all of it is a warning. Whether the user may have the devices is
asked when CAPK makes a VM, in CAPK's name.
"""

from __future__ import annotations

from msgspec.structs import replace

from laneway.admission.capk.places import Place, place_of
from laneway.admission.request import Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Rules, Verdict
from laneway.admission.vms.mutate import as_stored
from laneway.admission.vms.validate import NO_DEVICES, Case, judge_case, with_unseen
from laneway.admission.world import World
from laneway.core.phrases import shown
from laneway.core.refusals import FieldInvalid, Refusal
from laneway.kube.capk import KubevirtMachineTemplate, VmSpec
from laneway.kube.clusterapi import LABEL_CLUSTER
from laneway.kube.kubevirt import InstanceSpec


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
        title = f"{request.namespace}/{name}"
        case = Case(title, as_made(vm, world), NO_DEVICES, runs=False, granted=True)
        verdict = judge_case(case, request.requester, world, granted)
        verdict = verdict if place is Place.HERE else only_warned(verdict)
    else:
        verdict = ALLOWED
    return with_unseen(verdict, vm, None)


RULES = Rules(judge)


def as_made(vm: VmSpec, world: World) -> InstanceSpec:
    """What each VM gets to have: it is mutated when CAPK makes it."""
    spec = vm.template.spec
    return replace(spec, domain=replace(spec.domain, devices=as_stored(vm, world)))


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
