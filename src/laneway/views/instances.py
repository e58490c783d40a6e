"""The GPU instances of a GPU in MIG mode, in words."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import MIG_OUT_OF_SYNC
from laneway.core.mig.profiles import bare_name
from laneway.views.gpus import Gpu
from laneway.views.order import natural
from laneway.views.profiles import counts


def of_gpu(gpu: Gpu) -> str:
    """The GPU instances by the MigConfiguration, and the desired ones where they differ."""
    if gpu.mig is None:
        return ""
    status = gpu.mig.status
    found = counted({one.name: len(one.vgpu_ids) for one in status.profile_status})
    desired = counted({one.name: one.requested for one in gpu.mig.spec.profile_spec})
    text = found
    if gpu.mig.spec.enabled and desired != found:
        text = f"{found or 'none'}, desired {desired or 'none'}"
    if status.status == MIG_OUT_OF_SYNC:
        text += f" ({status.status}{status.message and ': '}{status.message})"
    return text.strip()


def room(gpu: Gpu) -> str:
    """The GPU instances of one profile that could still be made, by profile."""
    if gpu.mig is None:
        return ""
    fits = {bare_name(one.name): one.available for one in gpu.mig.status.profile_status}
    return " or ".join(f"{fits[name]} x {name}" for name in sorted(fits, key=natural) if fits[name])


def counted(found: Mapping[str, int]) -> str:
    """`1g.10gb=2, 3g.40gb=1`; empty for none."""
    return counts({bare_name(name): count for name, count in found.items()})
