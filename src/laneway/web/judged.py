"""What admission would say of a write, from the caches: before it is tried, and live.

The rules are the webhook's own, so a button that is disabled has the words that the refusal would
have. The webhook decides all the same.
"""

from __future__ import annotations

from laneway.admission.request import Operation, Request, Requester
from laneway.admission.verdict import Rules, Verdict
from laneway.admission.world import World
from laneway.api import PCIDeviceClaim
from laneway.kube.resource import T, served
from laneway.web.access import Question
from laneway.web.visit import Visit

_GROUP = served(PCIDeviceClaim).group


def creation(
    visit: Visit, rules: Rules[T], name: str, new: T, world: World | None = None
) -> Verdict:
    """What is said when the user creates an object. `world`: as it is then."""
    request = Request(Operation.CREATE, name, "", _requester(visit), new=new)
    return _verdict(visit, rules, request, world)


def update(visit: Visit, rules: Rules[T], name: str, old: T, new: T) -> Verdict:
    """What is said when the user changes an object."""
    request = Request(Operation.UPDATE, name, "", _requester(visit), old=old, new=new)
    return _verdict(visit, rules, request)


def deletion(visit: Visit, rules: Rules[T], name: str, old: T) -> Verdict:
    """What is said when the user deletes an object."""
    return _verdict(visit, rules, Request(Operation.DELETE, name, "", _requester(visit), old=old))


def against(visit: Visit, asked: Question, verdict: Verdict) -> list[str]:
    """Why the user cannot make a write: a right that is missing, or else the words of admission.

    These name VMs, so a user without the right does not see them.
    """
    if not visit.may(asked):
        return [visit.texts("claiming.may_not", verb=asked.verb, resource=asked.resource)]
    return [one.words for one in verdict.refusals]


def administers(resource: str) -> Question:
    """The right to change what belongs to others."""
    return Question("administer", _GROUP, resource)


def world_of(visit: Visit) -> World:
    """What rules look at, as this process knows it."""
    caches = visit.caches
    return World(
        nodes=caches.nodes.store,
        pci_devices=caches.pci.store,
        claims=caches.claims.store,
        cards=caches.networks.store,
        gpus=caches.gpus.store,
        vgpus=caches.vgpus.store,
        usb_devices=caches.usb.store,
        usb_claims=caches.usb_claims.store,
        vms=caches.vms.store,
        instances=caches.instances.store,
        ledger=lambda: visit.ledger,
    )


def _requester(visit: Visit) -> Requester:
    return Requester(visit.user.name)


def _verdict(
    visit: Visit, rules: Rules[T], request: Request[T], world: World | None = None
) -> Verdict:
    world = world or world_of(visit)
    granted = frozenset(
        asked
        for asked in rules.asks(request, world)
        if visit.may(Question(asked.verb, _GROUP, asked.resource))
    )
    return rules.judge(request, world, granted)
