"""Puts the kinds of Cluster API, and of its provider for vSphere, on an API server."""

from __future__ import annotations

from laneway.core.raw import JsonObject, at
from laneway.kube import capv
from laneway.kube.client import Client
from laneway.simcluster.definitions import install_missing, shipped


async def install(client: Client) -> None:
    """Create what is missing. Raises KubeError.

    A server serves a new kind a moment later; informers ask again until it does.
    """
    await install_missing(client, __package__)


def provider_definitions() -> list[JsonObject]:
    """The definitions of the provider's kinds, with the fields that Laneway adds."""
    return [crd for crd in shipped(__package__) if at(crd, ("spec", "group")) == capv.GROUP]
