"""By which names VMs request devices."""

from __future__ import annotations

from laneway.admission.vms.devices import resource_of
from laneway.api import VGPUDevice, VGPUDeviceStatus


def test_a_vgpu_goes_by_its_resource_or_as_its_profile_is_called() -> None:
    def resource(**status: str) -> str:
        return resource_of(VGPUDevice(status=VGPUDeviceStatus(**status)))

    profile = "NVIDIA A2-4Q"
    assert resource(resource_name="nvidia.com/own", configure_vgpu_type_name=profile) == (
        "nvidia.com/own"
    )
    assert resource(configure_vgpu_type_name=profile) == "nvidia.com/NVIDIA_A2-4Q"
    assert resource() == ""
