"""What the ledger is made from: devices, those who request devices, and nodes.

Facts are taken as they come. Objects are written by others and read at slightly different moments,
so they may contradict each other: two facts about one device, an unknown owner, a
VM that requests -1 of something. The ledger is to hold for all of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec


class ConsumerKind(StrEnum):
    """What can have devices."""

    VM = "VirtualMachine"
    POD = "Pod"


class Consumer(NamedTuple):
    """A VM or pod that has devices or requests some."""

    kind: ConsumerKind
    namespace: str
    name: str

    def __str__(self) -> str:
        """`VM default/vm-a`, `pod default/p`."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"pod {path}" if self.kind is ConsumerKind.POD else f"VM {path}"


class Phase(StrEnum):
    """How near a VM or pod is to its devices."""

    RUNNING = "running"
    PENDING = "pending"
    """Meant to run, and not running yet."""
    STOPPED = "stopped"
    """Not meant to run; its devices are kept for it."""


class DeviceFact(msgspec.Struct, frozen=True, gc=False):
    """A device that VMs can request. There may be a hundred thousand of them."""

    node: str
    resource: str
    """`nvidia.com/NVIDIA_A2-2Q`"""
    name: str
    """Of its PCIDevice, VGPUDevice or USBDevice."""
    unhealthy: str = ""
    """Why it cannot be allocated, in words; empty: the first request gets it."""
    owner: Consumer | None = None
    """To whom the kubelet gave it."""


class Demand(msgspec.Struct, frozen=True):
    """A VM, or another pod, that requests devices."""

    consumer: Consumer
    phase: Phase
    requests: Mapping[str, int]
    """How many of each resource."""
    node: str = ""
    """Where it is; empty while undecided."""
    selector: Mapping[str, str] = {}
    """Labels that its node must have."""
    last: tuple[str, ...] = ()
    """Names of the devices that it had last."""
    created: str = ""
    """Time as Kubernetes writes it; older ones come first."""
    labels: Mapping[str, str] = {}
    migratable: bool | None = None
    """Whether KubeVirt can move it to another node while it runs; None: KubeVirt does not say."""
    stopping: bool = False
    """It runs, and is about to stop."""


class NodeFact(msgspec.Struct, frozen=True):
    """A node of the cluster."""

    name: str
    labels: Mapping[str, str] = {}
    closed: str = ""
    """Why nothing new can start there, in words; empty: it can."""


class Facts(msgspec.Struct, frozen=True):
    """Everything that is known at one moment."""

    devices: tuple[DeviceFact, ...] = ()
    demands: tuple[Demand, ...] = ()
    nodes: tuple[NodeFact, ...] | None = None
    """None: they may not be read. Then every node is taken to be open."""
