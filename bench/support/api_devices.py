"""The requests of the API servers' measurement: the devices of many nodes, made and changed."""

from __future__ import annotations

import time
from typing import Any

from laneway.api import VGPUDevice
from laneway.kube.client import PatchType
from laneway.kube.resource import served
from support.api_calls import Call

_VGPUS = served(VGPUDevice)
GROUP = _VGPUS.group
PATH = _VGPUS.path()
_PROFILES = [f"NVIDIA A2-{size}Q" for size in (1, 2, 4, 8, 16)]


def name_of(number: int) -> str:
    return f"node-{number // 300:03d}-{number:06d}"


def device(number: int) -> dict[str, Any]:
    return {
        "apiVersion": _VGPUS.api_version,
        "kind": "VGPUDevice",
        "metadata": {"name": name_of(number), "labels": {"nodename": f"node-{number // 300:03d}"}},
        "spec": {
            "address": "0000:08:00.4",
            "nodeName": f"node-{number // 300:03d}",
            "enabled": False,
        },
    }


def creation(number: int) -> Call:
    return Call("POST", PATH, device(number))


def status_patch(number: int) -> Call:
    """As an agent writes it: the profiles that the device can have."""
    status = {"availableTypes": {name: str(at + number) for at, name in enumerate(_PROFILES)}}
    return Call("PATCH", f"{PATH}/{name_of(number)}/status", {"status": status}, PatchType.MERGE)


def application(number: int) -> Call:
    """Another manager takes a field over and adds one."""
    body = {
        "apiVersion": _VGPUS.api_version,
        "kind": "VGPUDevice",
        "metadata": {"name": name_of(number), "labels": {"example.com/rack": "r1"}},
        "spec": {"enabled": True, "vGPUTypeName": _PROFILES[0]},
    }
    path = f"{PATH}/{name_of(number)}?fieldManager=bench-applier&force=true"
    return Call("PATCH", path, body, PatchType.APPLY)


def stamp(number: int) -> Call:
    body = {"metadata": {"annotations": {"sent": f"{time.perf_counter():.6f}"}}}
    return Call("PATCH", f"{PATH}/{name_of(number)}", body, PatchType.MERGE)
