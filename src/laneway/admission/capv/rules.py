"""The rules for VSphereMachine, VSphereMachineTemplate and VSphereVM.

What is wrong in itself is refused, as CAPV refuses it, for all three kinds alike; a deletion never,
and an update only for what it changes, so that an odd object can still be brought
to its end. Whether a vCenter has the devices is asked where a person can still choose others: of a
template, and of a machine that is made without one. What controllers make of objects that were
stored before there were rules is not held up by what a vCenter would make something of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from laneway.admission.capv.objects import MACHINES, TEMPLATES, VMS, Where, Written
from laneway.admission.capv.supply import Scope, of_template
from laneway.admission.request import Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Rules, Verdict
from laneway.admission.world import World
from laneway.core.raw import JsonObject
from laneway.core.refusals import FieldInvalid, Refusal
from laneway.core.refusals.vsphere import is_terminal
from laneway.core.vsphere.spec import immutability as changes
from laneway.core.vsphere.spec import parsing, validation
from laneway.core.vsphere.spec.parsing import Problem
from laneway.core.vsphere.spec.requests import Requested
from laneway.kube.clusterapi import LABEL_CLUSTER

TOPOLOGY_DRY_RUN = "topology.cluster.x-k8s.io/dry-run"
"""Annotation of what Cluster API only wants to see the outcome of."""
CLONED_FROM = "cluster.x-k8s.io/cloned-from-name"
"""Annotation of what Cluster API makes of templates."""
RefusalOf: TypeAlias = Callable[[Requested], Refusal | None]
"""Why there is no place for one machine."""
_ITEMS = 8
"""So many different items are looked up one by one: each of all hosts, while others wait."""


def rules(where: Where) -> Rules[Written]:
    """The rules of one kind."""

    def judge(request: Request[Written], world: World, _granted: Granted) -> Verdict:
        old, new = request.old, request.new
        if new is None or new.metadata.deletion_timestamp:
            return ALLOWED
        spec = where.spec_of(new)
        if old is not None:
            return verdict(_updated(where, request, where.spec_of(old), spec))
        name = request.name or new.metadata.name
        problems = validation.created(where.kind, name, spec, where.base)
        if new.metadata.owner_references and all(one.works for one in problems):
            return Verdict(warnings=tuple(f"{one.path}: {one.message}" for one in problems))
        if problems or request.operation is not Operation.CREATE:
            return verdict(problems)
        return _looked_up(where, request, new, world)

    return Rules(judge)


MACHINE_RULES = rules(MACHINES)
TEMPLATE_RULES = rules(TEMPLATES)
VM_RULES = rules(VMS)


def verdict(problems: Iterable[Problem]) -> Verdict:
    """The problems as refusals."""
    return Verdict(tuple(map(_refusal, problems)))


def findings(problems: Iterable[Problem], world: World) -> Verdict:
    """What is wrong only as far as a vCenter's inventory is known: refused, or warned of."""
    found = tuple(problems)
    if world.vsphere_refuses:
        return verdict(found)
    return Verdict(warnings=tuple(f"{one.path}: {one.message}" for one in found))


def _refusal(problem: Problem) -> FieldInvalid:
    value = problem.value
    shown = "" if value is None else msgspec.json.encode(_printable(value)).decode()
    return FieldInvalid(problem.path, problem.kind, shown, problem.message)


def _printable(value: object) -> object:
    """Texts that JSON cannot hold, as they can be shown."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _updated(
    where: Where, request: Request[Written], old: JsonObject, new: JsonObject
) -> Iterator[Problem]:
    yield from validation.updated(where.kind, old, new, where.base)
    meta = request.object.metadata
    if not (where is TEMPLATES and request.dry_run and TOPOLOGY_DRY_RUN in meta.annotations):
        yield from changes.changed(where.kind, old, new, where.base)


# ------------------------------------------------------------------------- the vCenter's devices


def _looked_up(where: Where, request: Request[Written], new: Written, world: World) -> Verdict:
    """Whether a vCenter has the devices at all, free or not."""
    meta = new.metadata
    if where is VMS:
        return ALLOWED
    if CLONED_FROM in meta.annotations and where is MACHINES:
        return ALLOWED
    spec = where.spec_of(new)
    requested, _ = parsing.read_spec(spec)
    if not requested.devices:
        return ALLOWED
    server = spec.get("server")
    scope = Scope(
        request.namespace,
        meta.labels.get(LABEL_CLUSTER, ""),
        server if isinstance(server, str) else "",
    )
    supply = of_template(world, scope)
    if supply is None:
        return ALLOWED
    if not supply.known:
        return Verdict(warnings=(supply.unknown,))
    return findings(impossible(supply.refusal, requested, f"{where.base}.pciDevices"), world)


def impossible(refusal_of: RefusalOf, requested: Requested, path: str) -> tuple[Problem, ...]:
    """What no waiting would bring; for what several items ask, of the first of them."""
    found = [
        Problem(f"{path}[{requested.devices.index(item)}]", None, refusal.words, "Forbidden")
        for item in islice(dict.fromkeys(requested.devices), _ITEMS)
        if (refusal := _never(refusal_of(Requested((item,)))))
    ]
    if not found and len(requested.devices) > 1 and (refusal := _never(refusal_of(requested))):
        found = [Problem(path, None, refusal.words, "Forbidden")]
    return tuple(found)


def _never(refusal: Refusal | None) -> Refusal | None:
    return refusal if refusal is not None and is_terminal(refusal) else None
