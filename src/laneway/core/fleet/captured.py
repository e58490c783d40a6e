"""One host as it was captured, as a fleet of one node.

A capture has what the kernel shows: GPUs, virtual functions, vGPUs and profiles. It has no VMs, and
the driver's own program, which alone tells modes, does not run on it. What is therefore assumed is
said in `unreadable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.core.fleet import board
from laneway.core.fleet.model import Fleet, Framework, Gpu, Node, Vgpu
from laneway.core.gpu.desired import mode_of
from laneway.core.gpu.modes import GpuModes, Mode
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.names import pci_object_name
from laneway.core.pci import PciFunction
from laneway.core.phrases import few
from laneway.core.vgpu.profiles import framebuffer_mib, profile


def captured(node: str, inventory: Inventory) -> Fleet:
    """The fleet."""
    gpus = tuple(_gpu(node, one, inventory) for one in inventory.functions if one.sriov_gpu)
    return Fleet(nodes=(Node(name=node),), gpus=gpus, unreadable=tuple(_unknown(gpus, inventory)))


def _gpu(node: str, function: PciFunction, inventory: Inventory) -> Gpu:
    functions = inventory.vgpus_of(function.address)
    listed = {kind.name for one in functions for kind in (*one.supported, *one.creatable)}
    listed |= {one.configured.type_name for one in functions if one.configured is not None}
    names = board.profiles(function.device, function.subsystem_device, listed - {""})
    boards = {known.board for known in map(profile, names) if known is not None}
    frameworks = {one.framework for one in functions}
    vgpus = tuple(_vgpus(node, functions))
    return Gpu(
        name=pci_object_name(node, function.address),
        node=node,
        address=str(function.address),
        device=function.device,
        subsystem=function.subsystem_device,
        board=boards.pop() if len(boards) == 1 else "",
        mode=_mode(function, inventory.modes.get(function.address), vgpus),
        functions=len(functions),
        framework=Framework(frameworks.pop()) if len(frameworks) == 1 else Framework.UNKNOWN,
        driver=inventory.nvidia_driver,
        profiles=names,
        vgpus=vgpus,
    )


def _vgpus(node: str, functions: Sequence[VgpuFunction]) -> Iterator[Vgpu]:
    for one in functions:
        if one.configured is not None:
            yield Vgpu(
                name=pci_object_name(node, one.address),
                profile=one.configured.type_name,
                slot=one.configured.placement,
                instance=one.configured.gpu_instance,
            )


def _mode(function: PciFunction, modes: GpuModes | None, vgpus: Sequence[Vgpu]) -> str:
    """As the driver tells it, or as only one mode allows what the GPU carries; empty: not known."""
    if any(one.instance is not None for one in vgpus):
        return Mode.MIG_BACKED
    if len({framebuffer_mib(one.profile) for one in vgpus}) > 1:
        return Mode.MIXED_SIZE
    return mode_of(function, modes) or ""


def _unknown(gpus: Sequence[Gpu], inventory: Inventory) -> Iterator[str]:
    if carrying := [gpu.name for gpu in gpus if gpu.vgpus]:
        yield f"a capture has no holders: the vGPUs of {few(carrying)} count as free"
    if unknown := [gpu.name for gpu in gpus if not gpu.mode]:
        yield f"a capture does not record the mode of {few(unknown)}; SameSize is assumed"
    yield from (f"{one.address}: {one.unreadable}" for one in inventory.vgpus if one.unreadable)
    yield from (f"{error.device}: {error.message}" for error in inventory.errors)
