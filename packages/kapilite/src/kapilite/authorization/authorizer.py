"""Role-based access control: who may do what, by the roles and bindings in the store.

Nothing is allowed unless a rule allows it, except to the members of `system:masters`, to whom no
rule can be lost. Roles and bindings are kept in memory by subject, and follow the store: a change
counts from the moment it is committed. A binding that cannot be read, or whose role does not
exist, grants nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapilite.authn.users import MASTERS, User, service_account_name
from kapilite.authorization import rules
from kapilite.gotext.quoting import joined, quoted
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.authorization.attributes import Attributes
    from kapilite.authorization.rules import Rule
    from kapilite.storage.events import Event
    from kapilite.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
ROLE_BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{GROUP}"


class Decision(NamedTuple):
    """Whether, and by what or because of which broken binding not."""

    allowed: bool
    reason: str = ""


class Rules(NamedTuple):
    """What a user may do, and the roles granted to them that do not exist."""

    rules: tuple[Rule, ...]
    missing: tuple[Key, ...]


class Subject(msgspec.Struct, frozen=True):
    """Whom a binding is for."""

    kind: str
    name: str
    namespace: str | None = None


class RoleRef(msgspec.Struct, frozen=True):
    """The role that a binding grants."""

    kind: str
    name: str
    group: str | None = msgspec.field(default=None, name="apiGroup")


class _BindingBody(msgspec.Struct):
    role: RoleRef = msgspec.field(name="roleRef")
    subjects: list[Subject] | None = None


class _Grant(NamedTuple):
    """That one subject has one role; kept under the subject's name."""

    binding: Key
    role: Key
    subject: Subject


class Authorizer:
    """Decides, from an index of the roles and bindings in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        # By namespace (empty: the whole cluster), kind and name of the subject.
        self._grants: dict[tuple[str, str, str], dict[Key, _Grant]] = defaultdict(dict)
        self._granted: dict[Key, list[tuple[str, str, str]]] = {}
        for resource in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            for row in store.rows(resource):
                self._take(Key(resource, row.namespace, row.name), as_object(row.body))
        store.on_commit(self._follow)

    def decide(self, wanted: Attributes) -> Decision:
        """Whether a user may do what is wanted."""
        if MASTERS in wanted.user.groups:
            return Decision(allowed=True)
        namespace = wanted.namespace if wanted.path is None else ""
        asked: set[Key] = set()
        missing: list[Key] = []
        for grant in self._grants_of(wanted.user, namespace):
            if grant.role in asked:
                continue
            asked.add(grant.role)
            rules_of_role = self._roles.get(grant.role)
            if rules_of_role is None:
                missing.append(grant.role)
                continue
            for rule in rules_of_role:
                if rule.allows(wanted):
                    return Decision(True, f"RBAC: allowed by {_described(grant)}")
        return Decision(False, f"RBAC: {not_found(missing)}" if missing else "")

    def rules(self, user: User, namespace: str = "") -> Rules:
        """All that the roles allow a user, in one namespace or in the whole cluster."""
        found: list[Rule] = []
        missing: list[Key] = []
        for grant in self._grants_of(user, namespace):
            rules_of_role = self._roles.get(grant.role)
            if rules_of_role is None:
                missing.append(grant.role)
            else:
                found += rules_of_role
        return Rules(tuple(found), tuple(missing))

    def role(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of the Role or ClusterRole that a binding in a namespace refers to."""
        return self._roles.get(_role_key(kind, namespace, name))

    def _grants_of(self, user: User, namespace: str) -> Iterator[_Grant]:
        grants = self._grants
        for scope in ("", namespace) if namespace else ("",):
            if found := grants.get((scope, "User", user.name)):
                yield from found.values()
            for group in user.groups:
                if found := grants.get((scope, "Group", group)):
                    yield from found.values()

    def _follow(self, event: Event) -> None:
        key = event.key
        if key.resource not in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            return
        # As it is now, not as of the event: what was revoked since then must not be allowed again.
        stored = self._store.get(key)
        self._drop(key)
        if stored is not None:
            self._take(key, as_object(stored.body))

    def _drop(self, key: Key) -> None:
        self._roles.pop(key, None)
        for place in self._granted.pop(key, ()):
            del self._grants[place][key]
            if not self._grants[place]:
                del self._grants[place]

    def _take(self, key: Key, obj: dict[str, Any]) -> None:
        if key.resource in (ROLES, CLUSTER_ROLES):
            self._roles[key] = rules.read(obj.get("rules"))
            return
        try:
            body = msgspec.convert(obj, _BindingBody)
        except msgspec.ValidationError:
            return
        if (body.role.group or GROUP) != GROUP or body.role.kind not in ("Role", "ClusterRole"):
            return
        if key.resource == CLUSTER_ROLE_BINDINGS and body.role.kind != "ClusterRole":
            return
        role = _role_key(body.role.kind, key.namespace, body.role.name)
        for subject in body.subjects or ():
            place = _place(subject, key.namespace)
            if place is not None and key not in self._grants[place]:
                self._grants[place][key] = _Grant(key, role, subject)
                self._granted.setdefault(key, []).append(place)


def _role_key(kind: str, namespace: str, name: str) -> Key:
    return Key(ROLES, namespace, name) if kind == "Role" else Key(CLUSTER_ROLES, "", name)


def _place(subject: Subject, namespace: str) -> tuple[str, str, str] | None:
    """Where the grants of a subject are kept: a service account is known by its user name."""
    if subject.kind in ("User", "Group"):
        return namespace, subject.kind, subject.name
    of = subject.namespace or namespace
    if subject.kind == "ServiceAccount" and of:
        return namespace, "User", service_account_name(of, subject.name)
    return None


def _described(grant: _Grant) -> str:
    binding, role, subject = grant
    kind, whose = "ClusterRoleBinding", binding.name
    if binding.namespace:
        kind, whose = "RoleBinding", f"{binding.name}/{binding.namespace}"
    whom = subject.name
    if subject.kind == "ServiceAccount":
        whom += f"/{subject.namespace or binding.namespace}"
    of = "Role" if role.resource == ROLES else "ClusterRole"
    return f"{kind} {quoted(whose)} of {of} {quoted(role.name)} to {subject.kind} {quoted(whom)}"


def not_found(roles: Iterable[Key]) -> str:
    """That these roles, which bindings refer to, do not exist."""
    kinds = {ROLES: "role", CLUSTER_ROLES: "clusterrole"}
    return joined(f"{kinds[r.resource]}.{GROUP} {quoted(r.name)} not found" for r in roles)
