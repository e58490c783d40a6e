"""GPUs, their modes and their objects, as scenarios about them desired state and see them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from laneway.api import SRIOVGPUDevice
from laneway.core.gpu.desired import mode_of
from laneway.core.gpu.modes import Mode
from laneway.core.hardware_change import REASON
from laneway.host.nvidia.modes import read_modes
from laneway.host.scan import scan

MANAGE, SMI = "/usr/lib/nvidia/sriov-manage", "nvidia-smi"
A2 = "0000:08:00.0"
A100 = "0000:17:00.0"
MET = {"Enabled", "Disabled", "NoGpuInstances"}


def gpus_of(host: Any) -> list[str]:
    return [str(one.address) for one in scan(host).functions if one.sriov_gpu]


def named(address: str) -> str:
    return f"node1-{address.replace(':', '').replace('.', '')}"


async def found(host: Any, address: str) -> Mode | None:
    """The mode that the hardware is in."""
    function = next(one for one in scan(host).functions if str(one.address) == address)
    modes = await read_modes(host, function.address) if function.driver == "nvidia" else None
    return mode_of(function, modes)


async def desired(cluster: Any, name: str, mode: str, *, enabled: bool | None = None) -> Any:
    on = Mode(mode).has_vfs if enabled is None else enabled
    return await cluster.patch(SRIOVGPUDevice, name, {"spec": {"enabled": on, "mode": mode}})


async def in_mode(cluster: Any, name: str, mode: str) -> Any:
    """Wait until the present desired state is met and this is the mode."""
    return await cluster.until(
        SRIOVGPUDevice,
        name,
        lambda gpu: gpu and cluster.reason(gpu) in MET and gpu.status.mode == mode,
    )


async def refused(cluster: Any, name: str, reason: str) -> str:
    return cluster.message(await cluster.answer(name, reason, SRIOVGPUDevice))


class Deadly:
    """A simulated host on which an agent dies at the n-th command that changes something."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.fatal, self.when = 0, ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    async def run(self, argv: Sequence[str], seconds: float) -> Any:
        """As the host does, unless it is the one."""
        if argv[0] == MANAGE or {"-mig", "-shm", "-cgi", "-cci", "-dgi", "-dci"} & set(argv):
            self.fatal -= 1
            if self.fatal == 0:
                self.host.faults.kill_at(1, self.when)
        return await self.host.run(argv, seconds)


def configuration(address: str, **requested: int) -> dict[str, Any]:
    """A MigConfiguration as a person writes it: `one=2` are two of `MIG 1g.5gb`."""
    names = {"one": ("MIG 1g.5gb", 19), "two": ("MIG 2g.10gb", 14)}
    profiles = [
        {"name": names[key][0], "id": names[key][1], "requested": count}
        for key, count in requested.items()
    ]
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "MigConfiguration",
        "metadata": {"name": named(address)},
        "spec": {
            "enabled": True,
            "gpuAddress": address,
            "nodeName": "node1",
            "profileSpec": profiles,
        },
    }


def claim(address: str) -> dict[str, Any]:
    """A claim of a whole GPU."""
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": named(address)},
        "spec": {"address": address, "nodeName": "node1", "userName": "alice"},
    }


async def events(cluster: Any, name: str) -> list[tuple[str, str]]:
    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    return [
        (item["reason"], item["message"])
        for item in raw["items"]
        if item["involvedObject"]["name"] == name
        and item["involvedObject"]["kind"] == "SRIOVGPUDevice"
        and item["reason"] != REASON
    ]
