"""Whether the VMs of a set of machines can all start, and while machines are exchanged.

Machines that stay as they are need nothing new, and what those have that go is there for the others
in the end. That a rolling update finds no room for the machine that it makes first is said in time,
and never refused. Neither is what other sets are still to get, which is not theirs yet.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from laneway.admission.capk import pools
from laneway.admission.capk.places import Place, cluster_of, place_of
from laneway.admission.capk.pools import Wanted, pool_of, wanted
from laneway.admission.capk.templates import elsewhere, only_warned
from laneway.admission.clusterapi.many import Many, Name
from laneway.admission.verdict import ALLOWED, Verdict
from laneway.admission.vms import limits
from laneway.admission.vms.number import LIMIT
from laneway.admission.vms.validate import twice
from laneway.admission.world import World
from laneway.core.machine_pools.judge import Judgement
from laneway.core.machine_pools.judge import judge as judge_pools
from laneway.core.phrases import shown
from laneway.core.refusals import (
    FieldInvalid,
    MachinesCompete,
    Refusal,
    SurgeBlocked,
    TooManyDevices,
)
from laneway.kube.capk import TEMPLATE

_REPLICAS = "spec.replicas"


def is_known(new: Many, namespace: str, world: World) -> bool:
    """Whether what decides about a set is known, which may be in the same file."""
    template = world.kubevirt_templates.get(new.template.name, namespace)
    return template is not None and cluster_of(namespace, new.cluster, world) is not None


def judge(old: Many | None, new: Many, which: Name, world: World) -> Verdict:
    """What there is to say of a set that is made, or changed."""
    if not new.replicas:
        return ALLOWED
    if old is not None and new.is_like(old) and new.replicas <= old.replicas:
        return ALLOWED
    name = new.template.name
    template = world.kubevirt_templates.get(name, which.namespace)
    if template is None:
        words = (
            f"{TEMPLATE} {shown(name)} is not known, so the devices of its VMs were not checked."
        )
        return Verdict(warnings=(words,))
    found = wanted(which, new, template, world)
    if found is None:
        return ALLOWED
    place = place_of(template, which.namespace, new.cluster, world)
    if place is Place.ELSEWHERE:
        return Verdict(warnings=(elsewhere(name),))
    verdict = _judged(found._replace(old=old), world)
    return verdict if place is Place.HERE else only_warned(verdict)


def _judged(found: Wanted, world: World) -> Verdict:
    asked = found.devices.all
    if len(asked) > LIMIT:
        return _never((TooManyDevices(len(asked), LIMIT),), found)
    devices = found.devices
    never = (*limits.conflicts(devices, world), *twice(asked), *limits.too_many(asked, world))
    if never:
        return _never(never, found)
    ledger = world.ledger()
    if ledger is None:
        return ALLOWED
    first = tuple(pools.others(found.which, ledger, world))
    return _verdict(judge_pools((pool_of(found, ledger, world),), ledger, None, first), found.new)


def _verdict(judgement: Judgement, new: Many) -> Verdict:
    found = [about.refusal for about in judgement.refusals]
    if refused := [one for one in found if not isinstance(one, MachinesCompete)]:
        replicas = msgspec.json.encode(new.replicas).decode()
        return Verdict(tuple(_at(_REPLICAS, "Invalid value", one, replicas) for one in refused))
    found += [_advised(about.refusal, new) for about in judgement.warnings]
    return Verdict(warnings=tuple(one.words for one in found))


def _advised(refusal: Refusal, new: Many) -> Refusal:
    """A control plane has no `maxUnavailable`."""
    if isinstance(refusal, SurgeBlocked) and new.zone is None:
        return replace(refusal, advice=f"{new.advice[:1].upper()}{new.advice[1:]}")
    return refusal


def _never(refusals: tuple[Refusal, ...], found: Wanted) -> Verdict:
    """What no VM of the template may have."""
    return Verdict(tuple(_at(found.which.path, "Forbidden", one) for one in refusals))


def _at(field: str, kind: str, refusal: Refusal, value: str = "") -> FieldInvalid:
    return FieldInvalid(field, kind, value, refusal.words, refusal.reason)
