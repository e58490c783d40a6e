"""The programs of NVIDIA's driver, as Laneway runs them on a node."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, SetMixedSize, SwitchGpuVfs
from laneway.host.hardware import Hardware
from laneway.host.nvidia.modes import read_modes
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.scan import scan

LOCK = Path("/run/simgpu/unbind-lock")
PCI = "/sys/bus/pci/devices"


@pytest.fixture
def clients() -> Any:
    """Sets how many calls find a client of the driver in their way."""
    yield lambda calls: LOCK.write_text(f"{calls}\n")
    LOCK.unlink(missing_ok=True)


async def switch(node: Hardware, pf: PciAddress, *, on: bool = True) -> None:
    plan = Plan((SwitchGpuVfs(pf, enabled=on, count=16),))
    limits = Limits(unbind_lock_seconds=0.0)
    await execute(node, plan, actor="test", reason="test", limits=limits)


async def test_a_client_that_goes_soon_is_waited_for(
    node: Hardware, pf: PciAddress, clients: Any, without_vfs: None
) -> None:
    clients(4)
    await switch(node, pf)
    assert len(scan(node.host).vgpus) == 16


async def test_a_client_that_stays_is_answered(
    node: Hardware, pf: PciAddress, clients: Any, without_vfs: None
) -> None:
    clients(5)
    with pytest.raises(StepError, match="unbindLock"):
        await switch(node, pf)
    assert scan(node.host).vgpus == ()


async def test_sizes_are_mixed_on_an_empty_gpu_only(
    rig: str, node: Hardware, pf: PciAddress, without_vfs: None
) -> None:
    await switch(node, pf)
    mix = Plan((SetMixedSize(pf, enabled=True),))
    assert (await read_modes(node.executor, pf)).mixed_size is False
    function = scan(node.host).vgpus[0]
    home = f"{PCI}/{function.address}"
    made = "00000000-0000-4000-8000-000000000001"
    if rig == "mdev":
        node.host.write(f"{home}/mdev_supported_types/nvidia-744/create", made)
        away = (f"/sys/bus/mdev/devices/{made}/remove", "1")
        parameters = f"/sys/bus/mdev/devices/{made}/nvidia/vgpu_params"
    else:
        node.host.write(f"{home}/nvidia/current_vgpu_type", "744")
        away = (f"{home}/nvidia/current_vgpu_type", "0")
        parameters = f"{home}/nvidia/vgpu_params"

    with pytest.raises(StepError, match="status 19"):
        await execute(node, mix, actor="test", reason="test")
    # What the driver keeps of a vGPU goes with it.
    node.host.write(parameters, "frame_rate_limiter=0")
    assert node.host.read(parameters) == b"frame_rate_limiter=0\n"
    node.host.write(*away)
    with pytest.raises(OSError, match="No such") as gone:
        node.host.read(parameters)
    assert gone.value.errno == (errno.ENOENT if rig == "mdev" else errno.ENXIO)

    await execute(node, mix, actor="test", reason="test")
    assert (await read_modes(node.executor, pf)).mixed_size is True
    # The driver starts again with its functions, and forgets.
    await switch(node, pf, on=False)
    await switch(node, pf)
    assert (await read_modes(node.executor, pf)).mixed_size is False
