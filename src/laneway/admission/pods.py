"""Which pods may have claimed devices.

A claim is for a user, or for users with the verb `use` on it; of a pod that is the user who
makes it, or the account as which it runs. The second is for pods that a controller makes, of a
Deployment or a Job: its account has no right to anything, and the workload's author is not known.
Who may make pods in a namespace may run them as any account of the namespace, so what is granted to
an account is granted to all of them.

A pod that KubeVirt makes for an instance has the devices that the instance lists, which were judged
before; that it is one says who makes it and that the instance exists, not a label.

Pods that request nothing that Laneway knows pass unseen, and so do those while the webhook does not
answer: the agent judges last, when the kubelet asks (`core.device_plugin.entitled`). So the pod's
requester is noted on it, which no other client may write. A pod with vGPUs also gets nodes to
prefer (`hints`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from laneway.admission import hints, recording
from laneway.admission.judging import Change, read_request
from laneway.admission.request import Access, Operation, Request
from laneway.admission.review import Question
from laneway.admission.verdict import ALLOWED, Granted, Rules, Verdict
from laneway.admission.vms.devices import counted, is_known
from laneway.admission.vms.owners import Askers, pool_rights, refused_pool
from laneway.admission.world import World
from laneway.controllers.ledger.demands import limits_of
from laneway.controllers.ledger.objects import Pod
from laneway.core.refusals import PodClaimedByOthers, Refusal, ResourceClaimedByOthers
from laneway.core.requesters import User, read, service_account

_ANNOTATIONS = ("metadata", "annotations")


def judge(request: Request[Pod], world: World, granted: Granted) -> Verdict:
    """What there is to say of a pod that is made."""
    if request.operation is not Operation.CREATE:
        return judge_change(request, world, granted)
    title, annotations = _title(request), request.object.metadata.annotations
    found: list[Refusal] = [*recording.refused(title, annotations, _requesters(request, world))]
    for resource, count in _asked(request, world).items():
        askers = _askers(request, resource, count, world)
        against = refused_pool(resource, count, askers, granted, world)
        if isinstance(against, ResourceClaimedByOthers):
            account = _account(request).username
            known = dict.fromkeys(one.username for one in askers.consumer)
            found.append(
                PodClaimedByOthers(title, resource, count, against.own, tuple(known), account)
            )
    return Verdict(tuple(found)) if found else ALLOWED


def asks(request: Request[Pod], world: World) -> Iterable[Access]:
    """The rights that matter for what a pod requests."""
    if request.operation is Operation.CREATE:
        for resource, count in _asked(request, world).items():
            askers = _askers(request, resource, count, world)
            yield from pool_rights(resource, count, askers, world)


def knows(request: Request[Pod], world: World) -> bool:
    """Whether the instance for which KubeVirt makes a pod is known."""
    if request.operation is not Operation.CREATE or not _asked(request, world):
        return True
    is_launcher, instance = recording.instance_of(request, world)
    return not is_launcher or instance is not None


def judge_change(request: Request[Pod], _world: World, _granted: Granted) -> Verdict:
    """What there is to say of a change, of a binding too: whose a pod is never changes."""
    return Verdict(tuple(recording.rewritten(_title(request), request)))


def mutate(question: Question, world: World) -> Change:
    """Note on a new pod who requests it, and which nodes are best for its vGPUs."""
    if question.operation != Operation.CREATE or question.subresource or question.object is None:
        return Change()
    request: Request[Pod] = read_request(Pod, Operation.CREATE, question)
    raw = msgspec.json.decode(question.object)
    notes = recording.operations(raw, _ANNOTATIONS, _requesters(request, world))
    return Change([*notes, *hints.operations(raw, request, world)])


def _requesters(request: Request[Pod], world: World) -> tuple[User, ...]:
    if not _asked(request, world):
        return ()
    is_launcher, instance = recording.instance_of(request, world)
    if is_launcher:
        return () if instance is None else read(instance.metadata.annotations)
    return (recording.user(request.requester),)


def _askers(request: Request[Pod], resource: str, count: int, world: World) -> Askers:
    is_launcher, instance = recording.instance_of(request, world)
    if is_launcher:
        # KubeVirt also passes on the limits of instances and networks, for which no user is known.
        devices = counted(instance.spec.domain.devices.all) if instance is not None else {}
        answers = count <= devices.get(resource, 0)
        found = Askers.recorded(_requesters(request, world) if answers else ())
    else:
        found = Askers((request.requester,))
    return found.also_for(_account(request))


def _account(request: Request[Pod]) -> User:
    return service_account(request.namespace, request.object.spec.service_account_name)


def _asked(request: Request[Pod], world: World) -> Mapping[str, int]:
    """How many devices of Laneway's it requests, by resource."""
    return dict(_of_ours(limits_of(request.object), world))


def _of_ours(limits: Mapping[str, int], world: World) -> Iterator[tuple[str, int]]:
    for resource, count in sorted(limits.items()):
        if count and "/" in resource and is_known(world, resource):
            yield resource, count


def _title(request: Request[Pod]) -> str:
    name = request.name or request.object.metadata.generate_name
    return f"{request.namespace}/{name}"


RULES = Rules(judge, asks, knows)
CHANGED = Rules(judge_change)
"""Of everything by which an annotation of a pod can change."""
