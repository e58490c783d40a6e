"""What a request wants to do, as the roles speak of it: `list` of `pods/log` in `default`.

The rules are those of Kubernetes (its RequestInfo), which reads them off the method, the path and
two query parameters, and never off headers or the body. Any path has attributes, however odd; a
path that could be read in more than one way is recognised by `is_plain`, and such a request is
authorised for what Kubernetes would read and then refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from kapilite.authn.users import User
from kapilite.reads.moments import flag

if TYPE_CHECKING:
    from kapilite.address import Address

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OWN_SUBRESOURCES = ("status", "finalize")
"""Of namespaces: everything else below a namespace is a resource in it."""

_NAME_TERM = re.compile(r"metadata\.name(?:==|=)([^=!/%\\]*)")
_ODD = re.compile(r"[%\\\x00-\x1f\x7f\ud800-\udfff]")


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a user, on a resource or another path."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None
    """Not None: it is about this path, and no resource."""


def from_request(method: str, path: str, query: Mapping[str, str], user: User) -> Attributes:
    """What a request wants to do. `path` is as it was sent, still encoded."""
    decoded = unquote(path)
    other = Attributes(user=user, verb=method.lower(), path=decoded)
    parts = decoded.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return other
    group = ""
    if parts.pop(0) == "apis":
        if len(parts) < 3:
            return other
        group = parts.pop(0)
    version = parts.pop(0)
    verb = _VERBS.get(method, "")
    if parts[0] in ("watch", "proxy"):
        if len(parts) < 2:
            return other
        verb = parts.pop(0)
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _OWN_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    if verb == "proxy":
        subresource = ""
    if not name and verb == "get":
        verb = "watch" if flag(query, "watch") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(
        user=user,
        verb=verb,
        group=group,
        version=version,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def is_plain(path: str) -> bool:
    """Whether everybody who reads this path, as it was sent, must come to the same segments."""
    try:
        segments = [unquote(segment, errors="strict") for segment in path.split("/")]
    except UnicodeDecodeError:
        return False
    first, *rest = segments
    if rest and rest[-1] == "":
        rest.pop()  # one slash at the end: the root, or for the routes to decide
    return not first and all(
        segment not in ("", ".", "..") and "/" not in segment and not _ODD.search(segment)
        for segment in rest
    )


def is_about(wanted: Attributes, where: Address) -> bool:
    """Whether the address that a request is served at is the one that was authorised."""
    if wanted.path is not None:
        return False
    named = "" if wanted.verb in ("list", "watch") else wanted.name
    in_own = wanted.resource == "namespaces"
    return (wanted.group, wanted.version, wanted.resource, named, wanted.subresource) == (
        where.group,
        where.version,
        where.plural,
        where.name,
        where.subresource,
    ) and (where.namespace == wanted.namespace or (in_own and not where.namespace))


def _selected_name(selector: str) -> str:
    """The one name that a field selector leaves; empty where that is not plain to see."""
    if "\\" in selector:
        return ""
    for term in selector.split(","):
        match = _NAME_TERM.fullmatch(term)
        if match:
            return "" if match[1] in (".", "..") else match[1]
    return ""
