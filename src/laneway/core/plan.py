"""Plans: the typed steps that take hardware from what is to what is wished.

A step says what to do, how to undo it (another step) and what must be true afterwards. It holds no
code that touches a host, so the same plan serves execution, dry run, preview and tests.
"""

from __future__ import annotations

import msgspec

from laneway.core.pci import PciAddress


class CreateMdev(msgspec.Struct, frozen=True, tag=True):
    """Create a mediated device of a type on a function."""

    function: PciAddress
    type_id: str
    profile: str
    uuid: str


class RemoveMdev(msgspec.Struct, frozen=True, tag=True):
    """Remove a mediated device; the type is kept so that it can be created again."""

    function: PciAddress
    type_id: str
    profile: str
    uuid: str


class SetVgpuType(msgspec.Struct, frozen=True, tag=True):
    """Write `current_vgpu_type` (vendor VFIO); type `0` is no vGPU."""

    function: PciAddress
    type_id: str
    """Empty when it is known only once the steps before are done: a carrying card does not list
    types of another size."""
    before: str
    profile: str
    """Of the vGPU that comes or, when `type_id` is `0`, goes."""


Step = CreateMdev | RemoveMdev | SetVgpuType


class Plan(msgspec.Struct, frozen=True):
    """Steps in the order in which they must happen."""

    steps: tuple[Step, ...]


def undo(step: Step) -> Step:
    """The step that takes a done step back."""
    match step:
        case CreateMdev(function, type_id, profile, uuid):
            return RemoveMdev(function, type_id, profile, uuid)
        case RemoveMdev(function, type_id, profile, uuid):
            return CreateMdev(function, type_id, profile, uuid)
        case SetVgpuType(function, type_id, before, profile):
            return SetVgpuType(function, before, type_id, profile)


def describe(step: Step) -> str:
    """The step in words, as the rest of a sentence that starts with `Could not` or `will`."""
    match step:
        case CreateMdev(function, _, profile, uuid):
            return f"create {profile} on {function} with UUID {uuid}"
        case RemoveMdev(function, _, profile, uuid):
            return f"remove {profile} with UUID {uuid} from {function}"
        case SetVgpuType(function, "0", _, profile):
            return f"remove {profile} from {function}"
        case SetVgpuType(function, "", _, profile):
            return f"configure {profile} on {function}"
        case SetVgpuType(function, type_id, _, profile):
            return f"configure {profile} (type {type_id}) on {function}"
