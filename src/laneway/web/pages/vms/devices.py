"""The devices of a VM that exists: attached and detached, with the nodes that could have all."""

from __future__ import annotations

from laneway.changes import vms as changes
from laneway.kube.kubevirt import Devices
from laneway.views.vms import Vm, is_exact
from laneway.web.judged import world_of
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.vms import detail, form, seen
from laneway.web.pages.vms.fields import Typed, sent, typed
from laneway.web.pages.vms.fit import fit, load
from laneway.web.pages.vms.resources import FAMILIES, LIST_NODES, requested
from laneway.web.visit import Visit


def _attached(visit: Visit, vm: Vm, fields: Typed) -> Devices:
    taken = [one.name for one in vm.spec.domain.devices.all]
    names = [name for name in fields.all("device") if name not in taken]
    return requested(fields.numbers, names, taken, world_of(visit))


def _context(visit: Visit) -> Context:
    vm = seen.named(visit)
    fields = typed(visit)
    attach, detach = _attached(visit, vm, fields), frozenset(fields.all("detach"))
    had = vm.spec.domain.devices
    refusal = changes.detach_refusal(vm.running, [one.name for one in had.all])
    found = fit(visit, vm.consumer, vm.desired, changes.after(had, attach, detach))
    title = visit.texts("vms.devices_title", name=f"{vm.namespace}/{vm.name}")
    return {
        **form.choosing(visit, fields, has=[one.name for one in had.all]),
        **form.helpers(visit),
        "title": title,
        "vm": vm,
        "path": detail.path_of(vm),
        "crumbs": detail.crumbs(visit, vm, title),
        "reason": detail.not_editable(visit, vm),
        "had": had.all,
        "exact": is_exact,
        "held_fast": refusal.entries if refusal is not None else (),
        "not_detachable": refusal.words if refusal is not None else "",
        "detach": detach,
        "changes": bool(attach.all or detach),
        "verdict": form.verdict(visit, fields, found),
        "problems": {**form.wrong(visit, fields), **visit.problems},
    }


async def _prepare(visit: Visit) -> None:
    await detail.load(visit)
    vm, fields = seen.named(visit), typed(visit)
    devices = changes.after(
        vm.spec.domain.devices, _attached(visit, vm, fields), fields.all("detach")
    )
    await load(visit, vm.consumer, vm.desired, devices)


async def _act(visit: Visit) -> Done | Again:
    await detail.load(visit)
    vm = seen.named(visit)
    fields = sent(visit)
    if visit.sent("check"):
        return Again({})
    if vm.vm is None:
        return Again({"": [visit.texts("vms.no_vm_object")]})
    if wrong := form.wrong(visit, fields):
        return Again(wrong)
    attach, detach = _attached(visit, vm, fields), fields.all("detach")
    if not attach.all and not detach:
        return Again({"": [visit.texts("vms.nothing_chosen")]})
    try:
        await changes.change_devices(visit.client, vm.vm, vm.running, attach=attach, detach=detach)
    except form.REFUSED as error:
        return Again(form.problems(visit, error, fields))
    done = "vms.devices_done_running" if vm.running is not None else "vms.devices_done"
    return Done(detail.path_of(vm), visit.texts(done, name=f"{vm.namespace}/{vm.name}"))


PAGE = Page(
    "/vms/{namespace}/{name}/devices",
    "vms-devices.html",
    _context,
    kinds=frozenset({"ledger"}),
    asks=(LIST_NODES, *FAMILIES.values()),
    prepare=_prepare,
)
ACTION = Action("/vms/{namespace}/{name}/devices", _act)
