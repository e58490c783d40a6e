"""Which GPU of the cluster a person means: `NODE/ADDRESS`, the address long or short, or its name.

Whatever is not found is answered with what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laneway.api import SRIOVGPUDevice
from laneway.cli import fleet
from laneway.cli.errors import Failure
from laneway.core.pci import pci_address
from laneway.kube.client import Client

_LISTED = 16

METAVAR = "NODE/ADDRESS"


async def find(client: Client, text: str) -> fleet.Gpu:
    """Everything about the GPU that is meant. Raises Failure."""
    meant = pick(await fleet.devices(client), text)
    seen = await fleet.look(client, fleet.node_of(meant))
    for gpu in seen.gpus:
        if gpu.name == meant.metadata.name:
            return gpu
    raise Failure(f"{meant.metadata.name} has just been deleted; ask again")


def pick(devices: Sequence[SRIOVGPUDevice], text: str) -> SRIOVGPUDevice:
    """The one of these GPUs that the text means."""
    if not devices:
        raise Failure(
            "the cluster has no GPU that can be shared. Where one should be, look whether an agent "
            "runs on its node: kubectl get nodes.devices.harvesterhci.io"
        )
    for device in devices:
        if device.metadata.name == text:
            return device
    node, slash, written = text.rpartition("/")
    if not slash:
        raise Failure(f"there is no GPU {text}; say NODE/ADDRESS. There is: {_listed(devices)}")
    address = pci_address(written)
    if not node or address is None:
        raise Failure(
            f"{text} names no GPU: write NODE/ADDRESS, such as node1/08:00.0. There is: "
            f"{_listed(devices)}"
        )
    on_node = [device for device in devices if fleet.node_of(device) == node]
    if not on_node:
        raise Failure(
            f"there is no node {node} with a GPU that can be shared. There is: {_listed(devices)}"
        )
    for device in on_node:
        if pci_address(device.spec.address) == address:
            return device
    raise Failure(f"node {node} has no GPU at {address}. There is: {_listed(on_node)}")


def _listed(devices: Iterable[SRIOVGPUDevice]) -> str:
    titles = [f"{fleet.node_of(device)}/{device.spec.address}" for device in devices]
    more = f" and {len(titles) - _LISTED} more" if len(titles) > _LISTED else ""
    return ", ".join(titles[:_LISTED]) + more
