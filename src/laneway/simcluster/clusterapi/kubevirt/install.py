"""Puts the kinds of Cluster API's core and of its provider for KubeVirt on an API server."""

from __future__ import annotations

from laneway.kube import clusterapi
from laneway.kube.client import Client
from laneway.simcluster import clusterapi as simulated
from laneway.simcluster.definitions import install_missing


async def install(client: Client) -> None:
    """Create what is missing. Raises KubeError. A server serves a new kind a moment later."""
    await install_missing(client, simulated.__name__, group=clusterapi.GROUP)
    await install_missing(client, __package__)
