"""A VM is started, stopped and deleted; what takes something away is confirmed on a page first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from laneway.changes import vms as changes
from laneway.changes.errors import ChangeError
from laneway.kube.client import Client
from laneway.kube.kubevirt import VirtualMachine
from laneway.views import vms
from laneway.views.explain.vm import start_answer
from laneway.web.judged import world_of
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.vms import detail, seen
from laneway.web.pages.vms.resources import url_of
from laneway.web.visit import Visit

_ACTS: dict[str, Callable[[Client, VirtualMachine], Awaitable[None]]] = {
    "start": changes.start,
    "stop": changes.stop,
    "delete": changes.delete,
}


def _page(action: str) -> Page:
    def context(visit: Visit) -> Context:
        vm = seen.named(visit)
        ledger = visit.ledger
        world = world_of(visit)
        reason = (
            detail.not_deletable(visit, vm)
            if action == "delete"
            else detail.not_runnable(visit, vm, action)
        )
        answer = start_answer(ledger, vm.consumer) if ledger is not None else None
        short = answer.refusals if answer is not None and action == "start" else ()
        title = visit.texts(f"vms.{action}_title", name=f"{vm.namespace}/{vm.name}")
        return {
            "title": title,
            "vm": vm,
            "action": action,
            "reason": reason,
            "path": detail.path_of(vm),
            "crumbs": detail.crumbs(visit, vm, title),
            "devices": list(vms.devices_of(vm.consumer, ledger)),
            "device_url": lambda name: url_of(name, world),
            "short": [seen.words(visit, one.words) for one in short],
        }

    return Page(
        f"/vms/{{namespace}}/{{name}}/{action}",
        "vms-confirm.html",
        context,
        kinds=frozenset({"ledger"}),
        prepare=detail.load,
    )


def _action(action: str) -> Action:
    async def act(visit: Visit) -> Done | Again:
        await detail.load(visit)
        vm = seen.named(visit)
        if vm.vm is None:
            return Again({"": [visit.texts("vms.no_vm_object")]})
        try:
            await _ACTS[action](visit.client, vm.vm)
        except ChangeError as error:
            return Again({"": [str(error)]})
        done = visit.texts(f"vms.{action}_done", name=f"{vm.namespace}/{vm.name}")
        return Done("/vms" if action == "delete" else detail.path_of(vm), done)

    return Action(f"/vms/{{namespace}}/{{name}}/{action}", act)


PAGES = tuple(map(_page, _ACTS))
ACTIONS = tuple(map(_action, _ACTS))
