"""Acting as another user: the `Impersonate-*` headers.

Each part of the other identity, its name, every group, the uid and every extra value, must be
allowed to the one who asks, by the verb `impersonate`. The result has that identity alone: nothing
of the one who asks is left in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kapilite.authn.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    split_service_account,
)
from kapilite.authorization.attributes import Attributes
from kapilite.authorization.refusal import denied
from kapilite.errors import ApiError

if TYPE_CHECKING:
    from multidict import MultiMapping

    from kapilite.authorization.authorizer import Authorizer

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = {"group": "authentication.k8s.io", "version": "v1"}


def impersonated(user: User, headers: MultiMapping[str], authorizer: Authorizer) -> User:
    """The user whose request this is; raises a 403 for an identity that may not be taken."""
    if not any(name.lower().startswith(_PREFIX) for name in headers):
        return user
    other = _wanted(headers)
    if other is None:
        return user
    for attributes in _needed(user, other):
        decision = authorizer.decide(attributes)
        if not decision.allowed:
            raise denied(attributes, decision.reason)
    return _completed(other)


def _wanted(headers: MultiMapping[str]) -> User | None:
    """The identity that the headers name, as they name it; None where they name no user."""
    name = headers.get("Impersonate-User", "")
    uid = headers.get("Impersonate-Uid", "")
    groups = tuple(headers.getall("Impersonate-Group", ()))
    extra: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            extra[unquote(header.lower().removeprefix(_EXTRA))] += (value,)
    if name:
        return User(name, groups, uid, dict(extra))
    if groups or uid or extra:
        text = "the request names parts of a user to impersonate, and no Impersonate-User"
        raise ApiError(400, "BadRequest", text)
    return None


def _needed(user: User, other: User) -> Iterator[Attributes]:
    """What the user must be allowed, to be the other."""

    def impersonate(resource: str, name: str, **more: str) -> Attributes:
        return Attributes(user=user, verb="impersonate", resource=resource, name=name, **more)

    if account := split_service_account(other.name):
        yield impersonate("serviceaccounts", account[1], namespace=account[0])
    else:
        yield impersonate("users", other.name)
    for group in other.groups:
        yield impersonate("groups", group)
    for key, values in other.extra.items():
        for value in values:
            yield impersonate("userextras", value, subresource=key, **_AUTHENTICATION)
    if other.uid:
        yield impersonate("uids", other.uid, **_AUTHENTICATION)


def _completed(other: User) -> User:
    """With the groups that Kubernetes adds where they are not named."""
    groups = other.groups
    if not groups and (account := split_service_account(other.name)):
        groups = service_account_groups(account[0])
    everybody = AUTHENTICATED
    if other.name == ANONYMOUS.name:
        everybody = UNAUTHENTICATED
    if everybody not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, everybody)
    return User(other.name, groups, other.uid, other.extra)
