"""A workload cluster as seen from outside: how it is reached, and which of its nodes a machine is.

Its administrator need not be ours. So its kubeconfig names no file of ours and starts no
program, and whatever it answers is small, is looked at for a limited time, and ends in a KubeError
at worst: it may neither fill our memory nor keep the event loop from others.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence

import msgspec

from laneway.kube.client import Client
from laneway.kube.config import from_secret
from laneway.kube.errors import ForbiddenError, KubeError, UndecodableError
from laneway.vsphere.fleet.secrets import REMEDY, SECRETS
from laneway.vsphere.node_checks.job import NODES, Node

ANSWER_BYTES = 2 << 20
"""Of one answer: more than an object of a cluster may have."""
PAGE = 20
"""Nodes with all that driver and operator write on them have some ten KiB each."""
MOST_NODES = 10_000
"""Twice as many as Kubernetes is made for."""


class UnreadableSecretError(KubeError):
    """We may not read the kubeconfig; only the administrator can change that."""


async def reach(client: Client, cluster: str, namespace: str) -> Client:
    """A client of a workload cluster. Raises KubeError, also for a Secret of no use."""
    name = f"{cluster}-kubeconfig"
    where = f"Secret {namespace}/{name}"
    try:
        secret = await client.get(SECRETS, name, namespace)
    except ForbiddenError as error:
        raise UnreadableSecretError(f"{where} cannot be read: {error}; {REMEDY}") from None
    try:
        text = base64.b64decode(secret.data.get("value", ""), validate=True)
    except binascii.Error:
        raise KubeError(f"{where}: the value of value is not base64") from None
    # YAML is slow to read, and others wait for the event loop.
    config = await asyncio.to_thread(from_secret, text, where)
    return Client(config, request_seconds=10.0, answer_bytes=ANSWER_BYTES)


async def node_of(there: Client, provider_id: str) -> Node | None:
    """The node of a machine; no selector finds it, so all are looked through. Raises KubeError."""
    if not provider_id:
        return None
    seen = 0
    async for page in there.list(NODES, limit=PAGE):
        seen += max(PAGE, len(page.items))  # so that empty pages have an end, too
        if seen > MOST_NODES:
            raise UndecodableError(f"it has more than {MOST_NODES} nodes")
        if (found := _find(page.items, provider_id)) is not None:
            return found
    return None


def _find(items: Sequence[msgspec.Raw], provider_id: str) -> Node | None:
    for item in items:
        try:
            node = NODES.decode(item)
        except ValueError:
            continue  # an odd node does not hide this one
        if node.spec.provider_id == provider_id:
            return node
    return None
