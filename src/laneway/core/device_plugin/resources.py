"""Under which name pods request a PCI function now.

A function has the name of its model, so that any of a kind will do. Something more particular
replaces that, the most particular first: the profile of the vGPU that it carries, what its claim
says in an annotation, a name of its own where its claim says not to pool it, and what an annotation
on its PCIDevice says. A name in an annotation is used as it is or not at all: VMs
request exactly what is written, so no VM would have a corrected name.

The annotation on the PCIDevice is Harvester's: its agent wrote names of vGPUs and of functions that
are not pooled there, and so does this one. What it would never have written is a person's, and
stays.
"""

from __future__ import annotations

import msgspec

from laneway.core import names
from laneway.core.pci import PciFunction
from laneway.core.refusals import ResourceNameInvalid

_NATIVE = ("kubernetes.io/",)
_REQUESTS = "requests."


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about a function's name, in addition to its model."""

    name: str
    """Of its PCIDevice."""
    profile: str = ""
    """Of the vGPU that it carries as a PCI function; empty where it carries none."""
    claimed_as: str = ""
    """What its claim says; empty where it says nothing."""
    pinned: bool = False
    """Its claim says not to pool it."""
    annotation: str = ""
    """What its PCIDevice says; empty where it says nothing."""
    carries: bool = False
    """It can carry a vGPU, so that a vGPU's name may have stayed with its PCIDevice."""


def resource_of(function: PciFunction, named: Named) -> str | ResourceNameInvalid:
    """The name by which pods request a function."""
    if named.profile:
        return names.vgpu_resource_name(named.profile)
    if named.claimed_as:
        return _written(named.claimed_as, f"the claim {named.name}")
    own = "" if _is_ours(function, named) else named.annotation
    if named.pinned:
        written = _written(own, "") if own else ""
        current = written if isinstance(written, str) else ""
        return _pinned(current or names.resource_name_of(function), named)
    if own:
        return _written(own, f"the PCIDevice {named.name}")
    return names.resource_name_of(function)


def annotation_of(function: PciFunction, named: Named) -> str:
    """What the PCIDevice's annotation should say; empty where there should be none."""
    if not _is_ours(function, named):
        return named.annotation
    if named.profile or (named.pinned and not named.claimed_as):
        found = resource_of(function, named)
        return found if isinstance(found, str) else ""
    return ""


def is_extended(text: str) -> bool:
    """Whether a kubelet takes a resource of this name from a device plugin."""
    return (
        names.is_resource_name(text)
        and not any(native in text for native in _NATIVE)
        and not text.startswith(_REQUESTS)
    )


def _written(text: str, where: str) -> str | ResourceNameInvalid:
    return text if is_extended(text) else ResourceNameInvalid(text, where)


def _is_ours(function: PciFunction, named: Named) -> bool:
    """Whether an agent wrote the annotation, or there is none."""
    return (
        not named.annotation
        or named.carries
        or named.annotation == _pinned(names.resource_name_of(function), named)
    )


def _pinned(current: str, named: Named) -> str:
    return names.pinned_resource_name(current, named.name)
