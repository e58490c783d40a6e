"""Field types that the kinds share. What they say about a value goes into the CRD only.

Patterns and immutability are never enforced when an object is decoded: an odd object that is
already stored must be readable, or it could not be reported and repaired.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from laneway.core.gpu.workload import GpuWorkload

GROUP = "devices.harvesterhci.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

# Empty is what a Go client writes for "not set".
_PCI_ADDRESS = r"^$|^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$"
ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters: such a name could look like several lines of a list, or of a log."""


FIXED = "x-laneway-fixed"
"""Marks a field of the spec that cannot change; the definition says so in a rule on the object."""


def immutable(name: str) -> dict[str, str]:
    """A rule on an object whose spec has the field: once it has a value, it keeps it.

    A rule on the field itself would not be asked when the field is removed or set to null, and not
    when it comes again with another value. The API server asks it before any webhook, so its words
    begin as those of admission do.
    """
    old, new = f"oldSelf.spec.{name}", f"self.spec.{name}"
    return {
        "rule": f"!has(oldSelf.spec) || !has({old}) || "
        f"(has(self.spec) && has({new}) && {new} == {old})",
        "message": f"{name} is immutable: create another object instead",
        "fieldPath": f".spec.{name}",
    }


Address = Annotated[
    str,
    Meta(
        description="PCI address, domain:bus:device.function in lower-case hex. Immutable.",
        extra_json_schema={"pattern": _PCI_ADDRESS, FIXED: True},
    ),
]
ParentAddress = Annotated[
    str,
    Meta(
        description="PCI address of the GPU that this function belongs to. Immutable.",
        extra_json_schema={"pattern": _PCI_ADDRESS, FIXED: True},
    ),
]
NodeName = Annotated[
    str,
    Meta(
        description="Node that holds the device. Immutable.",
        extra_json_schema={"pattern": ONE_LINE, FIXED: True},
    ),
]
UserName = Annotated[
    str,
    Meta(
        description="User who claims the device. Immutable.",
        extra_json_schema={"pattern": ONE_LINE, FIXED: True},
    ),
]
OnNode = Annotated[str, Meta(description="Node that holds the device.")]
ResourceName = Annotated[
    str, Meta(description="Name under which a VM requests the device: vendor/product.")
]
Workload = Annotated[
    str,
    Meta(
        description=(
            "Whom the GPU serves. Containers: pods, through the vendor's device plugin; it cannot "
            "be claimed or have vGPUs. VirtualMachines: VMs. Empty: as the label "
            "laneway.io/gpu-workload of the node says, else VirtualMachines."
        ),
        extra_json_schema={"enum": ["", *GpuWorkload]},
    ),
]
