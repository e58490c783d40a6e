"""The GPUs of a cluster with all that belongs to each, from the objects that a reader has.

What a user may not read, or what is not installed, leaves its part out: only the GPUs themselves
are needed. What may not be read is said, so that it is not taken for something that does not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from laneway.api import (
    Condition,
    CoreNode,
    DeviceNode,
    LayoutGpu,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.controllers.devices.driver import driver_of, not_in_service
from laneway.core import keys, names
from laneway.core.gpu.modes import mode_named
from laneway.core.mig.profiles import bare_name
from laneway.core.pci import PciAddress
from laneway.core.vgpu.profiles import profiles_on
from laneway.kube.resource import Resource
from laneway.views.order import natural

NODES = Resource("", "v1", "nodes", False, CoreNode, "Node")


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that can be shared, and everything that the cluster knows about it."""

    device: SRIOVGPUDevice
    pci: PCIDevice | None = None
    vgpus: tuple[VGPUDevice, ...] = ()
    """In the order of their addresses."""
    mig: MigConfiguration | None = None
    layouts: tuple[tuple[VGPULayout, LayoutGpu], ...] = ()
    """Those that say something about it, oldest first."""
    stale: str = ""
    """Why no agent keeps its objects up to date; empty where nothing is known against it."""
    claim: PCIDeviceClaim | None = None
    """That of the whole card."""
    labels: Mapping[str, str] = {}
    """Of its node."""
    abandoned: bool = False
    """Its node is not in the cluster any more."""
    driver: str = ""
    """Why its node lacks the driver that the driver toolkit installs: reason and message."""
    unreadable: tuple[str, ...] = ()
    """Resources that the user may not list: what they say about it is missing."""

    @property
    def name(self) -> str:
        return self.device.metadata.name

    @property
    def node(self) -> str:
        return node_of(self.device)

    @property
    def address(self) -> str:
        return self.device.spec.address

    @property
    def title(self) -> str:
        """As the commands take it."""
        return f"{self.node}/{self.address}"

    @property
    def board(self) -> str:
        """What the card is called: by the catalogue, else by the database of PCI ids."""
        if self.pci is None:
            return ""
        status = self.pci.status
        boards = {one.board for one in profiles_on(status.device_id, status.subsystem_device_id)}
        if len(boards) == 1:
            return boards.pop()
        _, bracket, named = status.description.rpartition("[")
        return named.rstrip("]") if bracket else status.description.rpartition(":")[2].strip()

    @property
    def has_mig(self) -> bool:
        """Whether it is in MIG mode."""
        mode = mode_named(self.device.status.mode)
        return mode is not None and mode.has_mig

    @property
    def instances(self) -> list[tuple[int, str]]:
        """Its GPU instances by id and profile, in the order of their ids."""
        if self.mig is None:
            return []
        return sorted(
            (int(number), bare_name(one.name))
            for one in self.mig.status.profile_status
            for number in one.vgpu_ids
            if number.isdecimal()
        )

    @property
    def ready(self) -> Condition | None:
        """The answer to the present desired state, if there is one."""
        found = find_condition(self.device.status.conditions, "Ready")
        if found is None or found.observed_generation < self.device.metadata.generation:
            return None
        return found


@lru_cache(maxsize=16_384)
def gpu_name(node: str, address: str) -> str:
    """Name of the SRIOVGPUDevice there; empty where the address is none."""
    try:
        return names.pci_object_name(node, PciAddress.parse(address))
    except ValueError:
        return ""


def node_of(device: SRIOVGPUDevice | VGPUDevice) -> str:
    """The node that holds a device; one that another client made may say it in its label only."""
    return device.spec.node_name or device.metadata.labels.get(keys.LABEL_NODE, "")


def not_listed(resources: Sequence[str]) -> list[str]:
    """The warning about what may not be listed, if there is anything."""
    if not resources:
        return []
    return [f"you may not list {', '.join(resources)}; what they say is missing here"]


def assemble(
    gpus: Iterable[SRIOVGPUDevice],
    vgpus: Iterable[VGPUDevice],
    *,
    cards: Iterable[PCIDevice] = (),
    claims: Iterable[PCIDeviceClaim] = (),
    migs: Iterable[MigConfiguration] = (),
    layouts: Iterable[VGPULayout] = (),
    nodes: Mapping[str, CoreNode] | None = None,
    agents: Iterable[DeviceNode] = (),
    unreadable: Iterable[str] = (),
) -> tuple[Gpu, ...]:
    """Every GPU with what belongs to it; `nodes` None: they may not be listed."""
    functions: dict[tuple[str, str], list[VGPUDevice]] = defaultdict(list)
    for vgpu in vgpus:
        functions[node_of(vgpu), vgpu.spec.parent_gpu_device_address].append(vgpu)
    missing = tuple(unreadable)
    drivers = {
        one.metadata.name: not_in_service(driver_of(one.status.conditions)) for one in agents
    }
    by_name = {card.metadata.name: card for card in cards}
    claimed = {(claim.spec.node_name, claim.spec.address): claim for claim in claims}
    divided = {(mig.spec.node_name, mig.spec.gpu_address): mig for mig in migs}
    said: dict[str, list[tuple[VGPULayout, LayoutGpu]]] = defaultdict(list)
    for layout in sorted(layouts, key=_age):
        for entry in layout.status.gpus:
            said[entry.name].append((layout, entry))
    return tuple(
        Gpu(
            device=device,
            pci=by_name.get(device.metadata.name),
            vgpus=tuple(sorted(functions[place], key=lambda vgpu: vgpu.spec.address)),
            mig=divided.get(place),
            claim=claimed.get(place),
            labels=nodes[place[0]].metadata.labels if nodes and place[0] in nodes else {},
            layouts=tuple(said[device.metadata.name]),
            stale="" if nodes is None else staleness(nodes.get(place[0])),
            abandoned=nodes is not None and place[0] not in nodes,
            driver=drivers.get(place[0], ""),
            unreadable=missing,
        )
        for device in sorted(gpus, key=place_of)
        for place in [(node_of(device), device.spec.address)]
    )


def staleness(node: CoreNode | None) -> str:
    """Why the objects of a node may be out of date. A node that is not judged is taken as it is."""
    if node is None:
        return "the cluster has no such node any more"
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return ""
    since = f" since {ready.last_transition_time}" if ready.last_transition_time else ""
    why = f": {ready.message}" if ready.message else ""
    return f"the node is not ready{since}{why}"


def place_of(device: SRIOVGPUDevice) -> tuple[Any, ...]:
    """Sorting key: by node, then by address."""
    return natural(node_of(device)), device.spec.address, device.metadata.name


def _age(layout: VGPULayout) -> tuple[str, str]:
    return layout.metadata.creation_timestamp, layout.metadata.name
