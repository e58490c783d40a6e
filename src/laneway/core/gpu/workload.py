"""Whom a GPU serves, containers or virtual machines: what was said of it, and how to change that.

An object of the GPU speaks for it alone (`spec.workload`), a label of the node for all its others.
Three labels are read, because administrators know them: Laneway's own, Harvester's, and the one by
which NVIDIA's operator divides nodes. The first that says anything counts. Where nothing is said a
GPU serves virtual machines. A label with another value says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from laneway.core import keys


class GpuWorkload(StrEnum):
    """Whom a GPU serves; the value is that of `spec.workload`."""

    CONTAINERS = "Containers"
    VIRTUAL_MACHINES = "VirtualMachines"


class Assigned(NamedTuple):
    """Whom a GPU serves, and by what."""

    workload: GpuWorkload
    said: str
    """What says so, as a sentence without a full stop; empty where nothing does."""
    change: str
    """The command after which it serves virtual machines."""

    @property
    def for_containers(self) -> bool:
        return self.workload is GpuWorkload.CONTAINERS


class Said(NamedTuple):
    """What an object of a GPU says: its kind, its name and its `spec.workload`."""

    kind: str
    name: str
    workload: str


_CONTAINERS, _VMS = GpuWorkload.CONTAINERS, GpuWorkload.VIRTUAL_MACHINES

_LABELS: tuple[tuple[str, Mapping[str, GpuWorkload]], ...] = (
    (keys.LABEL_GPU_WORKLOAD, {"containers": _CONTAINERS, "virtual-machines": _VMS}),
    (keys.LABEL_BAREMETAL_GPUS, {"true": _CONTAINERS}),
    (
        keys.LABEL_NVIDIA_WORKLOAD,
        {"container": _CONTAINERS, "vm-passthrough": _VMS, "vm-vgpu": _VMS},
    ),
)
"""What each label of a node says, the more important first."""


def label_of(labels: Mapping[str, str]) -> str:
    """The label by which a node says whom its GPUs serve; empty where it says nothing."""
    return next((label for label, values in _LABELS if labels.get(label, "") in values), "")


def of_node(node: str, labels: Mapping[str, str]) -> Assigned:
    """Whom the GPUs of a node serve of which no object says anything."""
    label = label_of(labels)
    if not label:
        return Assigned(_VMS, "", "")
    value = labels[label]
    said = f"node {node} has the label {label}={value}"
    return Assigned(dict(_LABELS)[label][value], said, _label_command(node, label))


def assigned(said: Iterable[Said], node: str, labels: Mapping[str, str]) -> Assigned:
    """Whom a GPU serves. `said`: by its objects, the more important first."""
    for one in said:
        if one.workload in tuple(GpuWorkload):
            return Assigned(
                GpuWorkload(one.workload),
                f"its spec.workload is {one.workload}",
                change_command(one.kind, one.name, _VMS),
            )
    return of_node(node, labels)


def change_command(kind: str, name: str, workload: GpuWorkload) -> str:
    """The command that has one GPU serve others."""
    patch = f'{{"spec":{{"workload":"{workload}"}}}}'
    return f"kubectl patch {kind.lower()} {name} --type merge -p '{patch}'"


def _label_command(node: str, label: str) -> str:
    if label == keys.LABEL_BAREMETAL_GPUS:
        return f"kubectl label node {node} {label}-"
    return f"kubectl label node {node} {keys.LABEL_GPU_WORKLOAD}=virtual-machines --overwrite"
