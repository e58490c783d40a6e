"""Who may use which device: whom its claim is for, and those who have the verb `use` on the claim.

A mediated device has no claim and is for everybody.

Of the devices of a resource the kubelet hands out any, whoever claimed it, so what can be asked is
only that on some node the requester may use as many as he asks for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from laneway.admission.machines.claimed import (
    EVERYBODY,
    PCI_CLAIMS,
    USB_CLAIMS,
    Claim,
    claims_of,
    node_of,
    pool_of,
    user_of,
)
from laneway.admission.machines.devices import Found, named
from laneway.admission.request import Access, Requester
from laneway.admission.verdict import Granted
from laneway.admission.world import World
from laneway.api import USBDeviceClaim
from laneway.core.refusals import DeviceOfAnother, PoolOfOthers, Refusal
from laneway.kube.kubevirt import DeviceRequest

USE = "use"
"""The verb; nobody but an administrator has it without being granted it."""
_ASKED = 32
"""About so many claims of a pool the API server is asked one by one, by name."""


def wanted_rights(
    requests: Iterable[DeviceRequest],
    counts: Mapping[str, int],
    requester: Requester,
    world: World,
) -> Iterator[Access]:
    """The rights that decide whether he may have these devices, `counts` being all of a machine."""
    pools = set()
    for request in requests:
        found = named(world, request)
        claim = _claim_of(found)
        if claim is not None:
            if not _is_for(claim, requester, world):
                yield _access(claim)
        elif found is None and request.device_name:
            pools.add(request.device_name)
    for resource in sorted(pools):
        pool = pool_of(resource, world)
        if not pool.others(requester.username):
            continue
        yield Access(USE, pool.plural, "")
        if pool.most(requester.username) < counts[resource]:
            yield from itertools.islice(_foreign(resource, requester, world), _ASKED)


def refused(found: Found, requester: Requester, granted: Granted, world: World) -> Refusal | None:
    """Why somebody may not have a named device."""
    claim = _claim_of(found)
    if claim is None or _is_for(claim, requester, world) or _access(claim) in granted:
        return None
    return DeviceOfAnother(found.title, claim.spec.user_name, requester.username)


def refused_pool(
    resource: str, count: int, requester: Requester, granted: Granted, world: World
) -> Refusal | None:
    """Why somebody may not have so many devices of a resource."""
    pool, user = pool_of(resource, world), requester.username
    others = pool.others(user)
    if not others or Access(USE, pool.plural, "") in granted:
        return None
    most = pool.most(user, _lent(resource, requester, granted, world))
    return PoolOfOthers(resource, count, most, others, user) if most < count else None


def shared(resource: str, requester: Requester, granted: Granted, world: World) -> str:
    """Who else has claimed devices of a resource that he may not use; empty for nobody."""
    pool = pool_of(resource, world)
    others = pool.others(requester.username)
    if not others or Access(USE, pool.plural, "") in granted:
        return ""
    lent = sum(_lent(resource, requester, granted, world).values())
    return others[0] if lent < pool.count(others) else ""


def _foreign(resource: str, requester: Requester, world: World) -> Iterator[Access]:
    """The right to each device of a resource that is not for him."""
    for claim in claims_of(resource, world):
        if not _is_for(claim, requester, world):
            yield _access(claim)


def _lent(resource: str, requester: Requester, granted: Granted, world: World) -> Mapping[str, int]:
    """How many claims of others he may use one by one, by node."""
    nodes: Counter[str] = Counter()
    for access in granted:
        store = world.usb_claims if access.resource == USB_CLAIMS else world.claims
        claim: Claim | None = store.get(access.name)
        if claim is None or claim.status.resource_name != resource:
            continue
        if not _is_for(claim, requester, world):
            nodes[node_of(claim)] += 1
    return nodes


def _claim_of(found: Found | None) -> Claim | None:
    return None if found is None else found.claim or found.usb_claim


def _is_for(claim: Claim, requester: Requester, world: World) -> bool:
    return user_of(claim, world) in (EVERYBODY, requester.username)


def _access(claim: Claim) -> Access:
    plural = USB_CLAIMS if isinstance(claim, USBDeviceClaim) else PCI_CLAIMS
    return Access(USE, plural, claim.metadata.name)
