"""What is known of a node when it is judged: nothing here is decided, and nothing guessed.

What could not be read has its neutral value and stands in `hidden`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from laneway.core.driver_toolkit.standing import Standing
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress

ModuleState = Literal["loaded", "built in", "loadable", "missing"]
KubeletState = Literal["none", "no folder", "no socket", "ready"]
"""Of a node: no kubelet's folder, none for device plugins, no socket there, all there."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a node."""

    inventory: Inventory
    kernel: str = ""
    """Release of the running kernel."""
    arguments: tuple[str, ...] = ()
    """Words of the kernel's command line."""
    processor: str = ""
    """Its vendor, as in `/proc/cpuinfo`: GenuineIntel, AuthenticAMD; empty elsewhere."""
    virtual: bool = False
    """Whether the node is itself a VM."""
    iommu_groups: int = 0
    iommu_tables: tuple[str, ...] = ()
    """Those of DMAR, IVRS and IORT that the firmware gives: it has an IOMMU and switched it on."""
    remapping: bool | None = None
    """Whether interrupts go through the IOMMU; None where nothing tells."""
    unsafe_interrupts: bool = False
    """Whether VFIO is configured to do without that."""
    modules: Mapping[str, ModuleState] = {}
    vgpu_modules: tuple[str, ...] = ()
    """Those of NVIDIA's vGPU driver for hosts that are loaded."""
    sriov_manage: bool = False
    driver: Standing | None = None
    """By the driver toolkit's record; None where none has run."""
    unassigned: Mapping[PciAddress, tuple[int, ...]] = {}
    """Memory ranges (lines of sysfs `resource`) that the machine has no place for."""
    no_ari: frozenset[PciAddress] = frozenset()
    """Functions on a bus that ARI is off on."""
    kubelet: str = ""
    """The folder of the kubelet that was looked for."""
    kubelet_state: KubeletState = "none"
    plugin_sockets: tuple[str, ...] = ()
    """Files in the kubelet's folder for device plugins."""
    kernel_log: str = ""
    """Why the kernel's log cannot be read; empty when it can."""
    vfio_nodes: frozenset[str] = frozenset()
    """Names in `/dev/vfio`."""
    huge_pages: int | None = None
    """How many are set aside, of whatever size; None where the kernel does not tell."""
    programs: Mapping[str, int] = {}
    """Names of running programs that matter, with the number of their processes."""
    taken: tuple[str, ...] | None = None
    """Devices that Laneway has taken, by its own notes; None where these cannot be read."""
    quarantined: Mapping[PciAddress, str] = {}
    """Functions whose reset failed, with what the kernel said; by the same notes."""
    visibility_error: str = ""
    """Why not all processes could be seen."""
    hidden: tuple[str, ...] = ()
    """What could not be read for want of rights."""
