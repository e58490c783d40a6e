"""Host settings in their two forms: fields of an object, and what the engine is asked for."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from laneway.api import HostPolicySpec, HostPreparationSpec, HostSettings, to_builtins
from laneway.core.preparation.wanted import HugePages, Wanted


def wanted_of(settings: HostSettings) -> Wanted:
    """What an object asks of its hosts."""
    return Wanted(
        iommu=settings.iommu,
        iommu_passthrough=settings.iommu_passthrough,
        vfio_at_boot=settings.vfio_at_boot,
        blocked_drivers=tuple(settings.blocked_drivers),
        huge_pages=tuple(HugePages(one.size, one.count) for one in settings.huge_pages),
        kernel_arguments=tuple(settings.kernel_arguments),
    )


def fields_of(wanted: Wanted) -> dict[str, Any]:
    """The fields that ask for this, each of them, so that a merge patch leaves none of before."""
    return {
        "iommu": wanted.iommu,
        "iommuPassthrough": wanted.iommu_passthrough,
        "vfioAtBoot": wanted.vfio_at_boot,
        "blockedDrivers": list(wanted.blocked_drivers),
        "hugePages": [to_builtins(one) for one in wanted.huge_pages],
        "kernelArguments": list(wanted.kernel_arguments),
    }


def digest(spec: HostPreparationSpec | HostPolicySpec) -> str:
    """What tells these settings from others; where a roll-out stands is no part of them."""
    paused = spec.paused if isinstance(spec, HostPreparationSpec) else spec.rollout.paused
    text = msgspec.json.encode((wanted_of(spec), paused))
    return hashlib.sha256(text).hexdigest()[:16]
