"""What a VGPUDevice tells of its way to virtual machines."""

from __future__ import annotations

from laneway.api import Condition, VGPUDevice, VGPUDeviceSpec, VGPUDeviceStatus, decode, to_json
from laneway.controllers.device_plugin.status import NOT_READY
from laneway.controllers.devices.vgpu import decoded, on_its_way


def reasons(*, enabled: bool) -> set[str]:
    """Of a function that carries no vGPU and has carried one."""
    said = VGPUDeviceStatus(conditions=[Condition(type="Advertised", status="True")])
    stored = VGPUDevice(spec=VGPUDeviceSpec(enabled=enabled), status=said)
    return {one.reason for one in on_its_way(stored, VGPUDeviceStatus(), NOT_READY).conditions}


def test_an_idle_function_lacks_nothing() -> None:
    assert reasons(enabled=False) == {"NotConfigured"}
    assert reasons(enabled=True) == {"NotReady"}


def test_functions_that_offer_the_same_keep_it_once() -> None:
    offered = {"NVIDIA A2-4Q": "742", "NVIDIA A2-8Q": "743"}
    texts = [
        to_json(VGPUDevice(spec=VGPUDeviceSpec(address=address), status=status))
        for address in ("0000:17:00.4", "0000:17:00.5")
        for status in (VGPUDeviceStatus(available_types=offered), VGPUDeviceStatus())
    ]
    kept = [decoded(VGPUDevice, text) for text in texts]
    assert kept == [decode(VGPUDevice, text) for text in texts]
    assert kept[0].status.available_types is kept[2].status.available_types
    null = b'{"metadata":{"name":"a"},"spec":null,"status":{"availableTypes":null}}'
    assert decoded(VGPUDevice, null) == decode(VGPUDevice, null)
