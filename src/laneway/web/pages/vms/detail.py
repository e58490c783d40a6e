"""A VM: what it requests, runs with and has; why it does not start; and what can be done."""

from __future__ import annotations

from laneway.changes.vms import SUBRESOURCES
from laneway.core.ledger.facts import Phase
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.views import vms
from laneway.views.explain.vm import start_answer
from laneway.views.vms import Vm
from laneway.web.access import Question, question
from laneway.web.caches import Change
from laneway.web.judged import world_of
from laneway.web.page import Context, Page
from laneway.web.pages.vms import seen
from laneway.web.pages.vms.listing import sign
from laneway.web.pages.vms.resources import kind_of, url_of
from laneway.web.place import link
from laneway.web.visit import Visit

_PATCH = question("patch", VIRTUAL_MACHINES)
_DELETE = question("delete", VIRTUAL_MACHINES)
_RUNS = Question("update", SUBRESOURCES, "virtualmachines")


def rights(namespace: str) -> tuple[Question, ...]:
    """What the buttons of a VM depend on."""
    asked = (_PATCH, _DELETE, *(_RUNS._replace(subresource=one) for one in ("start", "stop")))
    return tuple(one._replace(namespace=namespace) for one in asked)


async def load(visit: Visit) -> None:
    """Wait for all answers that a VM's pages need."""
    await seen.load_named(visit)
    await visit.user.access.load(rights(visit.name("namespace")))


def not_editable(visit: Visit, vm: Vm) -> str:
    """Why the user may not change it; empty where nothing speaks against it."""
    if vm.vm is None:
        return visit.texts("vms.no_vm_object")
    if vm.vm.metadata.deletion_timestamp:
        return visit.texts("vms.deleting")
    return "" if visit.may(rights(vm.namespace)[0]) else visit.texts("vms.may_not_patch")


def not_deletable(visit: Visit, vm: Vm) -> str:
    """Why the user may not delete it."""
    if vm.vm is None:
        return visit.texts("vms.no_vm_object")
    if vm.vm.metadata.deletion_timestamp:
        return visit.texts("vms.deleting")
    return "" if visit.may(rights(vm.namespace)[1]) else visit.texts("vms.may_not_delete")


def not_runnable(visit: Visit, vm: Vm, action: str) -> str:
    """Why the user cannot start or stop it."""
    if vm.vm is None or vm.vm.metadata.deletion_timestamp:
        return not_editable(visit, vm)
    patch, _, start, stop = rights(vm.namespace)
    allowed = visit.may(patch) or visit.may(start if action == "start" else stop)
    return "" if allowed else visit.texts(f"vms.may_not_{action}")


def path_of(vm: Vm, *more: str) -> str:
    """The address of a VM, or of a form of it."""
    return link("vms", vm.namespace, vm.name, *more)


def crumbs(visit: Visit, vm: Vm, here: str = "") -> list[tuple[str, str]]:
    """The way to a page of a VM."""
    way = [(visit.texts("nav.vms"), "/vms"), (f"{vm.namespace}/{vm.name}", path_of(vm))]
    return [*way, (here, "")] if here else [way[0], (way[1][0], "")]


def _context(visit: Visit) -> Context:
    vm = seen.named(visit)
    world, ledger = world_of(visit), visit.ledger
    demand = ledger.demands.get(vm.consumer) if ledger is not None else None
    answer = start_answer(ledger, vm.consumer) if ledger is not None else None
    waits = demand is not None and demand.phase is not Phase.RUNNING
    refusals = answer.refusals if answer is not None and waits else ()
    action = "stop" if vm.running is not None or vm.starts_by_itself else "start"
    status = vm.vm.status if vm.vm is not None else None

    def concerns(change: Change) -> bool:
        return change.kind == "ledger" or change.key == (vm.namespace, vm.name)

    return {
        "title": f"{vm.namespace}/{vm.name}",
        "vm": vm,
        "crumbs": crumbs(visit, vm),
        "sign": sign,
        "lines": vms.lines(vm, ledger),
        "kind": lambda resource: kind_of(resource, world),
        "device_url": lambda name: url_of(name, world),
        "outdated": vms.outdated_record(vm, ledger),
        "known": ledger is not None,
        "waits": waits,
        "refusals": [(one.reason, seen.words(visit, one.words)) for one in refusals],
        "action": action,
        "no_action": not_runnable(visit, vm, action),
        "no_edit": not_editable(visit, vm),
        "no_delete": not_deletable(visit, vm),
        "path": path_of(vm),
        "conditions": status.conditions if status is not None else (),
        "object_url": link(
            "objects",
            "virtualmachines" if vm.vm is not None else "virtualmachineinstances",
            vm.namespace,
            vm.name,
        ),
        "concerns": concerns,
    }


PAGE = Page(
    "/vms/{namespace}/{name}",
    "vms-detail.html",
    _context,
    kinds=frozenset({"ledger", "vms", "instances"}),
    prepare=load,
)
