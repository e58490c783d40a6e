"""A namespace, as the command line says it."""

from __future__ import annotations

import re

from laneway.cli.errors import Failure

_NAMESPACE = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def checked_namespace(name: str) -> str:
    """The name, if a namespace can have it. Raises Failure."""
    if not _NAMESPACE.fullmatch(name):
        raise Failure(
            f"{name[:80]!r} cannot be a namespace: it has 1 to 63 lower case letters, digits "
            "and '-'; 'kubectl get namespaces' lists the namespaces"
        )
    return name
