"""What an agent needs on an API server: the kinds, and the node that it is the agent of."""

from __future__ import annotations

from laneway.api import PCIDevice
from laneway.api.crds import crds
from laneway.kube.client import Client
from laneway.kube.resource import Resource

_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, PCIDevice)
NODES = Resource("", "v1", "nodes", False, PCIDevice)


async def install(client: Client, node: str) -> None:
    for crd in crds():
        await client.create(_CRDS, crd)
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
