"""Which GPU of the cluster a person means: `NODE/ADDRESS`, the address long or short, or its name.

A GPU that is not found is answered with the closest, or with those that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laneway.api import SRIOVGPUDevice
from laneway.cli import fleet
from laneway.cli.errors import Failure
from laneway.cli.suggest import did_you_mean
from laneway.core.pci import pci_address
from laneway.kube.client import Client
from laneway.views.gpus import Gpu, node_of

_LISTED = 16


async def find(client: Client, text: str) -> Gpu:
    """Everything about the GPU that is meant. Raises Failure."""
    meant = pick(await fleet.devices(client), text)
    seen = await fleet.look(client, node_of(meant))
    for gpu in seen.gpus:
        if gpu.name == meant.metadata.name:
            return gpu
    raise Failure(f"{meant.metadata.name} has just been deleted; ask again")


def pick(devices: Sequence[SRIOVGPUDevice], text: str) -> SRIOVGPUDevice:
    """The one of these GPUs that the text means. Raises Failure."""
    if not devices:
        raise Failure(
            "the cluster has no GPU that can be shared. Check that an agent runs on the node of "
            "the GPU: kubectl get nodes.devices.harvesterhci.io"
        )
    for device in devices:
        if device.metadata.name == text:
            return device
    node, slash, written = text.rpartition("/")
    address = pci_address(written)
    if not slash or not node or address is None:
        titles = [*map(_title, devices), *(device.metadata.name for device in devices)]
        meant = did_you_mean(text, titles) or f"The GPUs are: {_listed(devices)}"
        raise Failure(
            f"{text[:80]!r} names no GPU; write NODE/ADDRESS, for example node1/08:00.0. {meant}"
        )
    on_node = [device for device in devices if node_of(device) == node]
    if not on_node:
        meant = did_you_mean(node, {node_of(device) for device in devices})
        raise Failure(
            f"the cluster has no node {node} with a GPU that can be shared. "
            f"{meant or f'The GPUs are: {_listed(devices)}'}"
        )
    for device in on_node:
        if pci_address(device.spec.address) == address:
            return device
    raise Failure(f"node {node} has no GPU at {address}. Its GPUs are: {_listed(on_node)}")


def _title(device: SRIOVGPUDevice) -> str:
    return f"{node_of(device)}/{device.spec.address}"


def _listed(devices: Iterable[SRIOVGPUDevice]) -> str:
    titles = [_title(device) for device in devices]
    more = f" and {len(titles) - _LISTED} more" if len(titles) > _LISTED else ""
    return ", ".join(titles[:_LISTED]) + more
