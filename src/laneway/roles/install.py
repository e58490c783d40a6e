"""Puts the CRDs on an API server, or brings those that are there up to date.

A server serves a new kind a moment after it took the CRD. Nobody needs to wait for that here:
informers ask again until it does.
"""

from __future__ import annotations

import logging

import msgspec

from laneway.api import ObjectMeta
from laneway.api.crds import crds
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import Resource

log = logging.getLogger(__name__)


class CustomResourceDefinition(msgspec.Struct, frozen=True):
    """As far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


_RESOURCE = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, CustomResourceDefinition
)


async def install_crds(client: Client) -> None:
    """Create or update every CRD. Raises KubeError."""
    for crd in crds():
        name = crd["metadata"]["name"]
        try:
            await client.create(_RESOURCE, crd)
            log.info("created CRD %s", name)
        except AlreadyExistsError:
            await client.patch(_RESOURCE, name, {"spec": crd["spec"]})
