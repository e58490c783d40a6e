"""Whether a device can be given to a VM, in a few words."""

from __future__ import annotations

import msgspec

from laneway.core import names
from laneway.core.passthrough.usability import Reason, ReasonKind, short, usable

_VGPU_KINDS = (ReasonKind.VGPU_CONFIGURED, ReasonKind.VGPU_FUNCTION)


def verdict(reasons: list[Reason]) -> str:
    """`yes`, or `no` and everything that blocks. A vGPU function is asked about its vGPU."""
    blocking = [reason for reason in reasons if not usable([reason])]
    if not blocking:
        return "yes"
    if all(reason.kind in _VGPU_KINDS for reason in blocking):
        [reason, *_] = blocking
        if reason.kind is ReasonKind.VGPU_CONFIGURED:
            return f"yes, its vGPU: {names.vgpu_resource_name(reason.details[0])}"
        return "yes, once a vGPU is configured on it"
    # The vGPUs of a card have rows of their own.
    brief = (
        msgspec.structs.replace(reason, details=())
        if reason.kind is ReasonKind.VFS_ENABLED
        else reason
        for reason in blocking
    )
    return f"no: {short(brief)}"
