"""The GPUs of a cluster as documents: what `laneway gpus` and `laneway top` give to programs."""

from __future__ import annotations

from typing import Any

from laneway.api import VGPUDevice, find_condition
from laneway.core.fleet.fragmentation import score
from laneway.core.fleet.migration import ecc_of
from laneway.core.mig.profiles import bare_name
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views import fragmentation, migration
from laneway.views.gpus import Gpu
from laneway.views.memory import occupancy
from laneway.views.profiles import shortened


def document(gpu: Gpu) -> dict[str, Any]:
    """One GPU. Fields are added in later versions; none changes what it means."""
    device, ready, memory = gpu.device, gpu.ready, occupancy(gpu)
    free, group = fragmentation.free(gpu), migration.group(gpu)
    return {
        "node": gpu.node,
        "address": gpu.address,
        "name": gpu.name,
        "board": gpu.board,
        "mode": device.status.mode,
        "desiredMode": device.spec.mode,
        "enabled": device.spec.enabled,
        "virtualFunctions": len(device.status.vf_addresses),
        "ready": None if ready is None else ready.status == "True",
        "reason": "" if ready is None else ready.reason,
        "message": "" if ready is None else ready.message,
        "owner": device.status.owner,
        "claimedBy": None if gpu.claim is None else gpu.claim.spec.user_name,
        "driverVersion": device.status.driver_version,
        "ecc": ecc_of(device.status.ecc_mode),
        "migrationGroup": group.label or None,
        "migrationGroupLacks": group.unknown,
        "stale": gpu.stale,
        "unreadable": gpu.unreadable,
        "memoryMiB": None if memory is None else memory.mib,
        "allocatedMiB": None if memory is None else memory.allocated_mib,
        "utilisation": None,
        "vgpus": [
            _vgpu(vgpu) for vgpu in gpu.vgpus if vgpu.spec.enabled or vgpu.status.vgpu_status
        ],
        "gpuInstances": _instances(gpu),
        "fits": shortened(device.status.fits),
        "freeMiB": None if free is None else free.mib,
        "largestFit": "" if free is None else short_name(free.largest),
        "fragmentation": None if free is None else score([free]),
        "layouts": [
            {
                "name": layout.metadata.name,
                "dryRun": layout.spec.dry_run,
                "state": entry.state,
                "reason": entry.reason,
                "message": entry.message,
                "current": entry.observed_generation >= layout.metadata.generation,
            }
            for layout, entry in gpu.layouts
        ],
    }


def _vgpu(vgpu: VGPUDevice) -> dict[str, Any]:
    ready = find_condition(vgpu.status.conditions, "Ready")
    has, profile = vgpu.status.allocation, vgpu.status.configure_vgpu_type_name
    return {
        "address": vgpu.spec.address,
        "name": vgpu.metadata.name,
        "profile": short_name(profile) if vgpu.status.vgpu_status else "",
        "desiredProfile": short_name(vgpu.spec.vgpu_type_name) if vgpu.spec.enabled else "",
        "framebufferMiB": framebuffer_mib(profile) or None,
        "gpuInstance": vgpu.status.gpu_instance,
        "slot": vgpu.status.placement,
        "ready": None if ready is None else ready.status == "True",
        "reason": "" if ready is None else ready.reason,
        "holder": None
        if has is None
        else {"namespace": has.namespace, "pod": has.pod, "virtualMachine": has.virtual_machine},
    }


def _instances(gpu: Gpu) -> list[dict[str, Any]]:
    if gpu.mig is None:
        return []
    desired = {one.name: one.requested for one in gpu.mig.spec.profile_spec}
    return [
        {
            "profile": bare_name(one.name),
            "count": len(one.vgpu_ids),
            "desired": desired.get(one.name, 0) if gpu.mig.spec.enabled else None,
            "available": one.available,
        }
        for one in gpu.mig.status.profile_status
    ]
