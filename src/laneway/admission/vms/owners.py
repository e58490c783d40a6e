"""Who may use which device: whom its claim is for, and those who have the verb `use` on the claim.

A mediated device has no claim and is for everybody.

Which devices of a resource a workload gets is decided on its node, among those that it may have
(`core.device_plugin.entitled`). What can be asked before is that on some node there are as many of
them as it requests.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from laneway.admission.request import Access, Requester
from laneway.admission.verdict import Granted
from laneway.admission.vms.claimed import claims_of, node_of, pool_of, user_of
from laneway.admission.vms.devices import Found, named
from laneway.admission.world import World
from laneway.controllers.claims.claim_users import EVERYBODY, USB_CLAIMS, USE, Claim, plural_of
from laneway.core.refusals import ClaimedByOther, Refusal, ResourceClaimedByOthers
from laneway.core.requesters import User
from laneway.kube.kubevirt import DeviceRequest

_ASKED = 32
"""About so many claims of a pool the API server is asked one by one, by name."""


class Askers(NamedTuple):
    """The users who request devices. Each may have what any of them may have."""

    consumer: tuple[Requester, ...]
    themselves: bool = True
    """Whether the first is who asks now; otherwise all are known by name and groups alone."""

    @classmethod
    def recorded(cls, users: Iterable[User]) -> Askers:
        """The users that an object names as its requesters."""
        return cls(tuple(map(_requester, users)), themselves=False)

    def also_for(self, user: User) -> Askers:
        """The same and one more."""
        return Askers((*self.consumer, _requester(user)), self.themselves)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.username for one in self.consumer)

    @property
    def title(self) -> str:
        """Those that a warning names."""
        return self.consumer[0].username if self.consumer else ""

    def rights(self, plural: str, name: str) -> Iterator[Access]:
        """The rights to use a claim, of which one is enough; no name: all claims."""
        for at, one in enumerate(self.consumer):
            yield Access(USE, plural, name, None if self.themselves and at == 0 else one)


def _requester(user: User) -> Requester:
    return Requester(user.username, groups=user.groups)


def wanted_rights(
    requests: Iterable[DeviceRequest],
    counts: Mapping[str, int],
    askers: Askers,
    world: World,
) -> Iterator[Access]:
    """The rights that decide whether they may have these devices, `counts` being all of them."""
    pools = set()
    for request in requests:
        found = named(world, request)
        claim = _claim_of(found)
        if claim is not None:
            if not _is_for(claim, askers, world):
                yield from _rights(claim, askers)
        elif found is None and request.device_name:
            pools.add(request.device_name)
    for resource in sorted(pools):
        yield from pool_rights(resource, counts[resource], askers, world)


def pool_rights(resource: str, count: int, askers: Askers, world: World) -> Iterator[Access]:
    """The rights that decide whether they may have so many devices of a resource."""
    pool = pool_of(resource, world)
    if not pool.others(askers.names):
        return
    yield from askers.rights(pool.plural, "")
    if pool.most(askers.names) < count:
        for claim in itertools.islice(_foreign(resource, askers, world), _ASKED):
            yield from _rights(claim, askers)


def refused(found: Found, askers: Askers, granted: Granted, world: World) -> Refusal | None:
    """Why they may not have a named device."""
    claim = _claim_of(found)
    if claim is None or _is_for(claim, askers, world):
        return None
    if not granted.isdisjoint(_rights(claim, askers)):
        return None
    return ClaimedByOther(found.title, askers.title)


def refused_pool(
    resource: str, count: int, askers: Askers, granted: Granted, world: World
) -> Refusal | None:
    """Why they may not have so many devices of a resource."""
    pool, users = pool_of(resource, world), askers.names
    if not pool.others(users) or not granted.isdisjoint(askers.rights(pool.plural, "")):
        return None
    most = pool.most(users, _lent(resource, askers, granted, world))
    return ResourceClaimedByOthers(resource, count, most, askers.title) if most < count else None


def shared(resource: str, askers: Askers, granted: Granted, world: World) -> bool:
    """Whether others have claimed devices of a resource that they may not use."""
    pool = pool_of(resource, world)
    others = pool.others(askers.names)
    if not others or not granted.isdisjoint(askers.rights(pool.plural, "")):
        return False
    lent = sum(_lent(resource, askers, granted, world).values())
    return lent < pool.count(others)


def _foreign(resource: str, askers: Askers, world: World) -> Iterator[Claim]:
    """The claims of a resource that are not for them."""
    for claim in claims_of(resource, world):
        if not _is_for(claim, askers, world):
            yield claim


def _lent(resource: str, askers: Askers, granted: Granted, world: World) -> Mapping[str, int]:
    """How many claims of others they may use one by one, by node."""
    nodes: Counter[str] = Counter()
    for plural, name in {(access.resource, access.name) for access in granted}:
        store = world.usb_claims if plural == USB_CLAIMS else world.claims
        claim: Claim | None = store.get(name)
        if claim is None or claim.status.resource_name != resource:
            continue
        if not _is_for(claim, askers, world):
            nodes[node_of(claim)] += 1
    return nodes


def _claim_of(found: Found | None) -> Claim | None:
    return None if found is None else found.claim or found.usb_claim


def _is_for(claim: Claim, askers: Askers, world: World) -> bool:
    return user_of(claim, world) in {EVERYBODY, *askers.names}


def _rights(claim: Claim, askers: Askers) -> Iterator[Access]:
    return askers.rights(plural_of(claim), claim.metadata.name)
