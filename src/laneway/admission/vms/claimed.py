"""For whom the devices of a resource are claimed, counted once and kept in step with the stores.

A resource may have tens of thousands of claims, every request asks about some, and something always
changes. So what was counted is kept, and only what has changed since is counted again. Where
changes are told (`keep_up`), everything is counted as it comes, and no request waits for that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from laneway.admission.world import RESOURCE, World
from laneway.api import PCIDeviceClaim, USBDeviceClaim
from laneway.controllers.claims import claim_users
from laneway.controllers.claims.claim_users import EVERYBODY, PCI_CLAIMS, Claim, plural_of
from laneway.kube.resource import KubeObject
from laneway.kube.store import Store


class Pool(NamedTuple):
    """How many devices of a resource are claimed, by user and node."""

    plural: str
    """Of the claims."""
    users: Mapping[str, Mapping[str, int]]

    def others(self, users: Collection[str]) -> tuple[str, ...]:
        """Users whose devices these have only if they are lent them."""
        return tuple(sorted(self.users.keys() - {*users, EVERYBODY}))

    def count(self, users: Iterable[str]) -> int:
        """How many devices these have."""
        return sum(sum(self.users[user].values()) for user in users)

    def most(self, users: Collection[str], lent: Mapping[str, int] | None = None) -> int:
        """How many that these may use are on the node that has the most."""
        nodes = Counter(lent or {})
        for one in {*users, EVERYBODY} & self.users.keys():
            nodes.update(self.users[one])
        return max(nodes.values(), default=0)


_NOBODYS = Pool(PCI_CLAIMS, {})
_Users = defaultdict[str, Counter[str]]


class _Part(NamedTuple):
    """As what a claim is counted."""

    resource: str
    user: str
    node: str


class _Counted:
    """The resources that were requested, as of some number of changes of each store."""

    def __init__(self, world: World) -> None:
        self.users: dict[str, _Users] = {}
        """By resource."""
        self._parts: dict[tuple[str, str], _Part] = {}
        """As what each claim, by plural and name, was counted."""
        self._changes = _changes(world)

    def has_caught_up(self, world: World) -> bool:
        """Count what has changed; not where that is too much."""
        changes = _changes(world)
        if changes == self._changes:
            return True
        changed: set[str] = set()
        for store, before, now in zip(_stores(world), self._changes, changes, strict=True):
            keys = store.changed_since(before) if now != before else ()
            if keys is None:
                return False
            changed.update([key.name for key in keys])
        self._changes = changes
        for name in changed:
            self._count_again(PCI_CLAIMS, name, world.claims.get(name), world)
            self._count_again(claim_users.USB_CLAIMS, name, world.usb_claims.get(name), world)
        return True

    def count(self, resource: str, world: World) -> None:
        """Begin with a resource."""
        self.users[resource] = defaultdict(Counter)
        for claim in claims_of(resource, world):
            self._add(plural_of(claim), claim.metadata.name, _part(claim, world))

    def _count_again(self, plural: str, name: str, claim: Claim | None, world: World) -> None:
        before, after = self._parts.get((plural, name)), None
        if claim is not None and claim.status.resource_name in self.users:
            after = _part(claim, world)
        if before == after:
            return
        if before is not None:
            self._forget(plural, name, before)
        if after is not None:
            self._add(plural, name, after)

    def _add(self, plural: str, name: str, part: _Part) -> None:
        self._parts[plural, name] = part
        self.users[part.resource][part.user][part.node] += 1

    def _forget(self, plural: str, name: str, part: _Part) -> None:
        del self._parts[plural, name]
        users = self.users[part.resource]
        users[part.user][part.node] -= 1
        if not users[part.user][part.node]:
            del users[part.user][part.node]
        if not users[part.user]:
            del users[part.user]


_counted: WeakKeyDictionary[Store[PCIDeviceClaim], _Counted] = WeakKeyDictionary()
"""By the claims of a world."""


def pool_of(resource: str, world: World) -> Pool:
    """The claims of a resource."""
    is_pci = world.claims.first(RESOURCE, resource) is not None
    if not is_pci and world.usb_claims.first(RESOURCE, resource) is None:
        return _NOBODYS  # Made-up names are not kept.
    keep_up(world, resource)
    users = _counted[world.claims].users[resource]
    return Pool(PCI_CLAIMS if is_pci else claim_users.USB_CLAIMS, users)


def keep_up(world: World, resource: str = "") -> None:
    """Count what has changed, and this resource if it never was."""
    counted = _counted.get(world.claims)
    if counted is None or not counted.has_caught_up(world):
        counted = _counted[world.claims] = _Counted(world)
    if resource and resource not in counted.users:
        counted.count(resource, world)


def claims_of(resource: str, world: World) -> Iterator[Claim]:
    """All of them; the world must not change meanwhile."""
    yield from world.claims.each(RESOURCE, resource)
    yield from world.usb_claims.each(RESOURCE, resource)


def _part(claim: Claim, world: World) -> _Part:
    return _Part(claim.status.resource_name, user_of(claim, world), node_of(claim))


def user_of(claim: Claim, world: World) -> str:
    """For whom a claim is."""
    return claim_users.user_of(claim, world.vgpus)


def node_of(claim: Claim) -> str:
    """Where its device is."""
    if isinstance(claim, USBDeviceClaim):
        return claim.status.node_name
    return claim.spec.node_name


def _stores(world: World) -> tuple[Store[KubeObject], ...]:
    """Where it stands for whom a claim is."""
    return world.claims, world.usb_claims, world.vgpus


def _changes(world: World) -> tuple[int, ...]:
    return world.claims.changes, world.usb_claims.changes, world.vgpus.changes
