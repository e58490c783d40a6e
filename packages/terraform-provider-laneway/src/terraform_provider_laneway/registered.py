"""All resources and data sources of the provider."""

from __future__ import annotations

from typing import Any

from terraform_provider_laneway.resources.claims import PciClaim, UsbClaim
from terraform_provider_laneway.resources.vgpu import Vgpu

RESOURCES: tuple[Any, ...] = (Vgpu, PciClaim, UsbClaim)
DATA_SOURCES: tuple[Any, ...] = ()
