"""What a VGPUDevice tells of its way to virtual machines."""

from __future__ import annotations

from laneway.api import Condition, VGPUDevice, VGPUDeviceSpec, VGPUDeviceStatus
from laneway.controllers.device_plugin.status import NOT_READY
from laneway.controllers.devices.vgpu import on_its_way


def reasons(*, enabled: bool) -> set[str]:
    """Of a function that carries no vGPU and has carried one."""
    said = VGPUDeviceStatus(conditions=[Condition(type="Advertised", status="True")])
    stored = VGPUDevice(spec=VGPUDeviceSpec(enabled=enabled), status=said)
    return {one.reason for one in on_its_way(stored, VGPUDeviceStatus(), NOT_READY).conditions}


def test_an_idle_function_lacks_nothing() -> None:
    assert reasons(enabled=False) == {"NotConfigured"}
    assert reasons(enabled=True) == {"NotReady"}
