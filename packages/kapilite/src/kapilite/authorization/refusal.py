"""The answers to a user without the right, in Kubernetes' words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.authn.authenticator import unauthorized
from kapilite.authn.users import ANONYMOUS
from kapilite.errors import ApiError
from kapilite.gotext.quoting import quoted

if TYPE_CHECKING:
    from kapilite.authorization.attributes import Attributes


def denied(wanted: Attributes, reason: str = "") -> ApiError:
    """The answer to a request: who has not said who they are is asked to."""
    return unauthorized() if wanted.user is ANONYMOUS else forbidden(wanted, reason)


def forbidden(wanted: Attributes, reason: str = "") -> ApiError:
    """The answer to a user who may not do this."""
    text = _cannot(wanted).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return refused(
        wanted.group, wanted.resource, wanted.name, f"{text}: {reason}" if reason else text
    )


def refused(group: str, resource: str, name: str, why: str) -> ApiError:
    """A `Forbidden` about a resource or, where that is empty, about a path."""
    what = f"{resource}.{group}" if group else resource
    if what:
        what += f" {quoted(name)} is " if name else " is "
    given = {"name": name, "group": group, "kind": resource}
    details = {key: value for key, value in given.items() if value}
    return ApiError(403, "Forbidden", f"{what}forbidden: {why}", **details)


def _cannot(wanted: Attributes) -> str:
    who = f"User {quoted(wanted.user.name)} cannot {wanted.verb}"
    if wanted.path is not None:
        return f"{who} path {quoted(wanted.path)}"
    what = wanted.resource + (f"/{wanted.subresource}" if wanted.subresource else "")
    where = f"in the namespace {quoted(wanted.namespace)}" if wanted.namespace else None
    return (
        f"{who} resource {quoted(what)} in API group {quoted(wanted.group)} "
        f"{where or 'at the cluster scope'}"
    )
