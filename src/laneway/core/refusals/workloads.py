"""Why a GPU is refused to containers or to virtual machines: it serves the others."""

from __future__ import annotations

from typing import ClassVar

from laneway.core.phrases import few, line, sentences
from laneway.core.refusals.base import Refusal


class GpusForContainers(Refusal, frozen=True):
    """A GPU is to be for virtual machines, and serves containers."""

    name: str
    node: str
    said: str
    """What says that it serves containers."""
    change: str
    """The command after which it serves virtual machines."""
    pods: tuple[str, ...] = ()
    """Pods of the node that use its GPUs."""

    @property
    def words(self) -> str:
        return sentences(
            f"{self.name} is a GPU of node {line(self.node)} that serves containers: {self.said}.",
            *((f"Pods that use GPUs of this node: {few(self.pods)}.",) if self.pods else ()),
            f"Use another GPU, or have this one serve VMs: {self.change}",
        )


class GpuServesVms(Refusal, frozen=True):
    """A GPU is to be for containers, and virtual machines have it."""

    field: ClassVar[str] = "spec.workload"
    name: str
    held: tuple[str, ...]
    """What of it VMs have, each as a part of a sentence."""
    end: str
    """The command that ends that."""

    @property
    def words(self) -> str:
        return (
            f"{self.name} cannot serve containers while VMs have it: {few(self.held)}. End that "
            f"first: {self.end}"
        )


class GpuPodsRunning(Refusal, frozen=True):
    """GPUs are to be for virtual machines while containers use them."""

    node: str
    pods: tuple[str, ...]
    change: str
    """What is refused, as a part of a sentence."""

    @property
    def words(self) -> str:
        return (
            f"Pods on node {self.node} use its GPUs: {few(self.pods)}. Delete them before you "
            f"{self.change}: kubectl delete pod NAME -n NAMESPACE"
        )


class NoGpu(Refusal, frozen=True):
    """A device is to serve containers or virtual machines by a field that is for GPUs."""

    field: ClassVar[str] = "spec.workload"
    name: str

    @property
    def words(self) -> str:
        return (
            f"pcidevice {self.name} is no whole GPU of NVIDIA, AMD or Intel, and only these have a "
            "spec.workload. A virtual function serves whom its GPU serves."
        )


class WorkloadsContradict(Refusal, frozen=True):
    """Two objects of one GPU are to say different things."""

    field: ClassVar[str] = "spec.workload"
    name: str
    workload: str
    other: str
    """Kind of the other object, which has the same name."""
    others: str
    """What that says."""

    @property
    def words(self) -> str:
        return (
            f"spec.workload of {self.name} is to be {self.workload}, and that of the {self.other} "
            f"of the same GPU is {self.others}. Change it there alone: kubectl edit {self.other} "
            f"{self.name}"
        )


class ContainerGpuUnserved(Refusal, frozen=True):
    """A GPU is for containers, and no device plugin can give it to them."""

    device: str
    why: str
    driver: str
    """Which it needs."""

    @property
    def words(self) -> str:
        return (
            f"GPU {self.device} is to serve containers, and cannot: {self.why}. It needs driver "
            f"{self.driver}. To see what the node lacks: laneway doctor node"
        )


class ContainerGpusMixed(Refusal, frozen=True):
    """A vendor's device plugin would give containers GPUs that are for virtual machines."""

    vendor: str
    containers: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"{few(self.containers)} cannot serve containers yet: {self.vendor}'s device plugin "
            f"advertises every GPU that is on {self.vendor}'s driver, and {few(self.others)} of "
            "those serve VMs. Claim them, so that they are on vfio-pci, or have them serve "
            "containers as well: laneway claim NODE/ADDRESS"
        )
