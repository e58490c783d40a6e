"""The desired state of one object, changed field by field: what fits no other module here.

A field that is not named stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.kube.client import Client
from laneway.kube.resource import Resource, T


async def write(
    client: Client,
    resource: Resource[T],
    name: str,
    fields: Mapping[str, Any],
    *,
    dry_run: bool = False,
) -> T:
    """Store the fields. `dry_run`: only ask the server, with its webhooks."""
    return await client.patch(resource, name, {"spec": dict(fields)}, dry_run=dry_run)
