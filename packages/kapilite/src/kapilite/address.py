"""What a URL path below `/api` and `/apis` stands for."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """A resource, or one object of it, or a subresource of that object."""

    group: str
    version: str
    namespace: str
    """Empty: cluster-scoped, or all namespaces."""
    plural: str
    name: str = ""
    subresource: str = ""


def parse(group: str, version: str, rest: str) -> Address | None:
    """The address in what follows the version; None when it is none.

    `namespaces/a/configmaps` are the ConfigMaps in a; `namespaces/a` and `namespaces/a/status` are
    the Namespace itself.
    """
    parts = rest.split("/")
    if not all(parts):
        return None
    namespace = ""
    own = len(parts) == 3 and parts[2] in ("status", "finalize") and not group
    if parts[0] == "namespaces" and len(parts) > 2 and not own:
        namespace, parts = parts[1], parts[2:]
    if len(parts) > 3:
        return None
    return Address(group, version, namespace, *parts)
