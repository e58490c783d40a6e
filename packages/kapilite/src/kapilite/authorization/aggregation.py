"""ClusterRoles that gather the rules of others: `admin` from all that carry its label.

The rules of such a role follow from the other roles alone, so what a user writes into them does
not last. They are computed from scratch: once at the start, which finishes what a crash has cut
off, and after each change of a ClusterRole. Roles that gather each other have the rules of all of
them, in an order that does not depend on history, so this comes to rest.

A role that would grow too large to be stored gains nothing more, and still loses what is revoked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kapilite.authorization.authorizer import CLUSTER_ROLES
from kapilite.builtin.rules import chooses
from kapilite.errors import ApiError
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.storage.events import Event
    from kapilite.storage.store import Store

log = logging.getLogger(__name__)

Object = dict[str, Any]


class Aggregation:
    """Keeps the rules of the aggregated ClusterRoles of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.settle()
        store.on_commit(self._follow)

    def settle(self) -> None:
        """Write the rules that are not what they should be."""
        stored = {row.name: as_object(row.body) for row in self._store.rows(CLUSTER_ROLES)}
        for name, role in stored.items():
            if not role.get("aggregationRule"):
                continue
            rules = gathered(name, stored)
            try:
                self._write(name, rules)
            except ApiError as error:
                log.warning("ClusterRole %r does not gather all of its rules: %s", name, error)
                held = role.get("rules") or ()
                self._write(name, [rule for rule in held if rule in rules])

    def _write(self, name: str, rules: list[Object]) -> None:
        key = Key(CLUSTER_ROLES, "", name)
        before = self._store.get(key)
        if before is None:
            return
        role = as_object(before.body)
        if rules != (role.get("rules") or []):
            role["rules"] = rules
            self._store.commit("MODIFIED", key, role, before)

    def _follow(self, event: Event) -> None:
        if event.key.resource == CLUSTER_ROLES:
            self.settle()


def gathered(name: str, roles: Mapping[str, Object]) -> list[Object]:
    """The rules that an aggregated role should have, each once, by the names of their roles."""
    found: list[Object] = []
    for role in _sources(name, roles):
        found += [rule for rule in role.get("rules") or () if rule not in found]
    return found


def _sources(name: str, roles: Mapping[str, Object]) -> Iterator[Object]:
    """The roles with rules of their own that a role gathers, directly or through others."""
    seen = {name}

    def visit(role: Object) -> Iterator[Object]:
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            for other in sorted(roles):
                labels = roles[other]["metadata"].get("labels") or {}
                if other in seen or not chooses(selector, labels):
                    continue
                seen.add(other)
                if roles[other].get("aggregationRule"):
                    yield from visit(roles[other])
                else:
                    yield roles[other]

    yield from visit(roles[name])
