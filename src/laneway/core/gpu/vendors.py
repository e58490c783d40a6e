"""Whose a GPU is, and what answers for it: known from PCI alone, so also where no driver is loaded.

Vendors differ in what a driver, a device plugin and a resource are called; everything that depends
on a vendor is in these tables, and nothing else in Laneway compares vendor ids of GPUs. A display
controller of another vendor (a service processor's, a virtual one's) is no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from laneway.core.inventory import Inventory
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.remembered import remembered

AMD = "1002"
"""Vendor id of AMD's GPUs; its processors have another."""
INTEL = "8086"

_DISPLAY = "03"
_ACCELERATOR = "12"
"""What AMD's Instinct cards of today are to PCI."""


class Vendor(StrEnum):
    """The vendors whose GPUs are told apart; the value stands in names of labels."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"

    @property
    def written(self) -> str:
        """As people write it."""
        return _WRITTEN[self]


_WRITTEN = {Vendor.NVIDIA: "NVIDIA", Vendor.AMD: "AMD", Vendor.INTEL: "Intel"}
_IDS = {NVIDIA: Vendor.NVIDIA, AMD: Vendor.AMD, INTEL: Vendor.INTEL}

AMDGPU = "amdgpu"
"""AMD's driver of the kernel. It serves GPUs and virtual functions, and makes no functions."""
SRIOV_DRIVERS = {
    Vendor.AMD: "AMD's driver gim (MxGPU)",
    Vendor.INTEL: "Intel's driver xe, or i915 as Intel delivers it",
}
"""What makes the virtual functions of a vendor's GPUs. NVIDIA's have a program of their own."""

DRIVERS: dict[Vendor, tuple[str, ...]] = {
    Vendor.NVIDIA: ("nvidia",),
    Vendor.AMD: (AMDGPU,),
    Vendor.INTEL: ("i915", "xe"),
}
"""The drivers with which containers use a GPU: a vendor's device plugin advertises what is bound to
one of them, and nothing else."""

_RESOURCES = {
    Vendor.NVIDIA: re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-\d.*)"),
    Vendor.AMD: re.compile(r"amd\.com/(gpu|[a-z]+_nps\d+)"),
    Vendor.INTEL: re.compile(r"gpu\.intel\.com/.+"),
}
"""What device plugins for containers call GPUs, and parts of one.

Under the same domains Laneway gives GPUs to VMs: by product, or by node and address.
"""


class Gpu(msgspec.Struct, frozen=True):
    """One GPU, or a virtual function of one."""

    address: PciAddress
    vendor: Vendor
    driver: str
    """What is bound to it: `nvidia`, `amdgpu`, `i915`, `xe`, `vfio-pci`; empty: nothing."""
    card: PciAddress
    """The GPU itself; of a virtual function its physical one."""
    has_vfs: bool = False

    @property
    def is_vf(self) -> bool:
        return self.card != self.address

    @property
    def for_containers(self) -> bool:
        """Whether its vendor's device plugin sees it."""
        return self.driver in DRIVERS[self.vendor]


@lru_cache(maxsize=1024)
def vendor_of(vendor_id: str, class_code: str) -> Vendor | None:
    """Whose GPU a function is, by four digits of vendor and at least four of class.

    Remembered, because a server shows the same few ids by the hundred.
    """
    vendor = _IDS.get(vendor_id)
    display = class_code.startswith(_DISPLAY)
    accelerates = vendor is Vendor.AMD and class_code.startswith(_ACCELERATOR)
    return vendor if display or accelerates else None


def gpu_of(function: PciFunction) -> Gpu | None:
    """A function as a GPU; None where it is none."""
    vendor = vendor_of(function.vendor, function.class_code)
    if vendor is None:
        return None
    return Gpu(
        address=function.address,
        vendor=vendor,
        driver=function.driver,
        card=function.physfn or function.address,
        has_vfs=bool(function.vfs or function.num_vfs),
    )


def gpus_of(inventory: Inventory) -> tuple[Gpu, ...]:
    """All GPUs of a node with their virtual functions."""
    found = map(gpu_of, inventory.functions)
    return tuple(one for one in found if one is not None)


@remembered
def cards_of(functions: tuple[PciFunction, ...]) -> frozenset[PciAddress]:
    """The cards that all GPUs and virtual functions of GPUs are of."""
    return frozenset(
        one.physfn or one.address
        for one in functions
        if vendor_of(one.vendor, one.class_code) is not None
    )


def resource_of(vendor: Vendor, drivers: Iterable[str] = ()) -> str:
    """The resource by which pods request a GPU. `drivers`: Intel has one resource for each."""
    match vendor:
        case Vendor.NVIDIA:
            return "nvidia.com/gpu"
        case Vendor.AMD:
            return "amd.com/gpu"
        case Vendor.INTEL:
            return f"gpu.intel.com/{'i915' if 'i915' in drivers else 'xe'}"


def vendor_of_resource(name: str) -> Vendor | None:
    """Whose GPU, or part of one, a pod with a resource has as containers have it."""
    return next((one for one, named in _RESOURCES.items() if named.fullmatch(name)), None)
