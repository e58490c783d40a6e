"""What is asked of a host, one by one, and how far the host is with each."""

from __future__ import annotations

from typing import Literal

import msgspec

RequirementState = Literal["Met", "RebootNeeded", "Missing", "Impossible"]
"""`RebootNeeded`: written, and not yet what runs; `Missing`: the plan writes it; `Impossible`: the
message says why."""


class Requirement(msgspec.Struct, frozen=True):
    """One thing that is asked of a host."""

    name: str
    """`Iommu`, `IommuPassthrough`, `VfioModules`, `BlockedDriver/NAME`, `HugePages/SIZE`,
    `KernelArgument/WORD`"""
    state: RequirementState
    message: str
    """In words, also when it is met."""
