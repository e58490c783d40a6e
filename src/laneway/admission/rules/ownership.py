"""Whose a claim is, and what others may do to it.

A claim belongs to the user that it names, whom no one but the API server can vouch for. So it is
made in the requester's name; anything else takes the right `administer` on the claim, which is
asked of the cluster beforehand. What Laneway claims for vGPUs is everybody's to use, and Laneway's
to delete.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.admission.json_patch import PatchOperation
from laneway.admission.request import Access, Operation, Request
from laneway.admission.rules.common import (
    Case,
    Findings,
    is_collected,
    is_trusted,
    name_of,
)
from laneway.admission.world import World
from laneway.api import PCIDeviceClaim, USBDeviceClaim
from laneway.core.refusals import NotClaimOwner, UserNameForbidden
from laneway.kube.resource import KubeObject

ADMINISTER = "administer"
"""The right to make, change and delete claims of others. No verb of the API server's own."""

Claim = PCIDeviceClaim | USBDeviceClaim


def right(resource: str, name: str) -> Access:
    return Access(ADMINISTER, resource, name)


def asked(resource: str, request: Request[Claim], world: World) -> Iterable[Access]:
    """The right, where the claim is not the requester's own."""
    creates = request.operation is Operation.CREATE
    claim = request.new if creates else request.old
    if claim is not None and not (is_trusted(request, world) or is_collected(request)):
        user = claim.spec.user_name
        if user != request.requester.username:
            yield right(resource, name_of(request))


def is_free_to(case: Case[KubeObject], resource: str, user: str) -> bool:
    """Whether the requester may do to a claim of this user what he likes."""
    return (
        case.trusted
        or user == case.requester.username
        or right(resource, case.name) in case.granted
    )


def made_for_other(case: Case[KubeObject], kind: str, user: str) -> Findings:
    """That a claim is made in another user's name without the right to do so."""
    if not is_free_to(case, f"{kind}s", user):
        yield UserNameForbidden(kind, case.name, user, case.requester.username)


def of_other(case: Case[KubeObject], kind: str, user: str, done: str) -> Findings:
    """That a claim is another's."""
    if not is_free_to(case, f"{kind}s", user):
        yield NotClaimOwner(kind, case.name, user, done)


def is_changed(old: Claim, new: Claim) -> bool:
    """Whether anything differs that its owner decides about."""
    return old.spec != new.spec or _decided(old) != _decided(new)


def _decided(claim: Claim) -> tuple[object, ...]:
    meta = claim.metadata
    owners = tuple((one.kind, one.name, one.uid) for one in meta.owner_references)
    return dict(meta.labels), dict(meta.annotations), tuple(meta.finalizers), owners


def vgpu_of(claim: Claim) -> str:
    """The VGPUDevice that a claim was made for; empty for any other claim."""
    owners = (one for one in claim.metadata.owner_references if one.kind == "VGPUDevice")
    return next((one.name for one in owners), "")


def in_the_name_of(request: Request[Claim], blank: object) -> tuple[PatchOperation, ...]:
    """The requester, where a new claim says nothing. `blank`: a spec that says nothing at all."""
    claim, username = request.new, request.requester.username
    if request.operation is not Operation.CREATE or claim is None:
        return ()
    if claim.spec.user_name or not username:
        return ()
    if claim.spec == blank:  # It may not be there.
        return ({"op": "add", "path": "/spec", "value": {"userName": username}},)
    return ({"op": "add", "path": "/spec/userName", "value": username},)
