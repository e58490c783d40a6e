"""An identity, and the names that Kubernetes has fixed for some of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
"""The group that may do everything, whatever the roles say."""
SERVICE_ACCOUNTS = "system:serviceaccounts"

_SERVICE_ACCOUNT = re.compile(
    r"system:serviceaccount:([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
)


class User(msgspec.Struct, frozen=True):
    """An identity: of a requester, or of the subject of a review."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


SYSTEM = User("system:admin", (MASTERS, AUTHENTICATED))
"""The writer from inside, and every client where authentication is off."""

ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


def authenticated(user: User) -> User:
    """The user as a member of the group of all who have shown who they are."""
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def service_account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def split_service_account(user_name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name stands for."""
    match = _SERVICE_ACCOUNT.fullmatch(user_name)
    return (match[1], match[2]) if match else None


def as_user_info(user: User) -> dict[str, object]:
    """The UserInfo of authentication.k8s.io/v1."""
    info: dict[str, object] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
