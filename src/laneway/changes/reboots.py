"""Lets a node reboot whose policy waits for a command."""

from __future__ import annotations

from laneway.api import HostPreparation
from laneway.changes.errors import ChangeError
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.views.preparation import Prepared, can_be_approved, prepared

PREPARATIONS = served(HostPreparation)


async def allow_reboot(client: Client, node: str, *, dry_run: bool = False) -> Prepared:
    """Note that this boot of a node may end. Raises ChangeError where that would change nothing."""
    try:
        found = await client.get(PREPARATIONS, node)
    except NotFoundError:
        raise ChangeError(
            f"no HostPolicy selects a node {node[:80]}. 'laneway hosts list' lists the nodes that "
            "one selects"
        ) from None
    now = prepared(found)
    if now.approved:
        raise ChangeError(f"the reboot of node {node} is allowed already. {now.message}")
    if not can_be_approved(now):
        raise ChangeError(
            f"node {node} does not wait for a reboot: it is {now.stage or 'not looked at yet'}. "
            f"{now.message}"
        )
    # It names the boot that may end, so whatever has changed meanwhile does not matter.
    annotations = {keys.ANNOTATION_REBOOT: now.boot}
    body = {"metadata": {"uid": found.metadata.uid, "annotations": annotations}}
    await client.patch(PREPARATIONS, node, body, dry_run=dry_run)
    return now
