"""All resources and data sources of the provider."""

from __future__ import annotations

from typing import Any

from terraform_provider_laneway.data.capacity import Capacity
from terraform_provider_laneway.data.devices import PciDevices, SriovGpus, VgpuDevices
from terraform_provider_laneway.data.plan import Plan
from terraform_provider_laneway.resources.claims import PciClaim, UsbClaim
from terraform_provider_laneway.resources.machine_pool_devices import MachinePoolDevices
from terraform_provider_laneway.resources.mig_configuration import MigInstances
from terraform_provider_laneway.resources.sriov_gpu import SriovGpu
from terraform_provider_laneway.resources.vgpu import Vgpu
from terraform_provider_laneway.resources.vgpu_layout import VgpuLayout
from terraform_provider_laneway.resources.virtual_machine_devices import VirtualMachineDevices

RESOURCES: tuple[Any, ...] = (
    SriovGpu,
    Vgpu,
    VgpuLayout,
    MigInstances,
    PciClaim,
    UsbClaim,
    VirtualMachineDevices,
    MachinePoolDevices,
)
DATA_SOURCES: tuple[Any, ...] = (PciDevices, VgpuDevices, SriovGpus, Capacity, Plan)
