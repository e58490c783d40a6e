"""What a GPU would be like with other vGPUs, as far as its objects show it."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import (
    MigConfiguration,
    MigConfigurationStatus,
    MigProfileStatus,
    ObjectMeta,
    PCIDevice,
    PCIDeviceSriov,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.views.gpus import Gpu
from laneway.views.planned import Planned, planned

A2, A100 = "25b6", "20f1"
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"
C1, C2, C3 = (f"GRID A100-{size}C" for size in ("1-5", "2-10", "3-20"))
ADDRESS = "0000:08:00.0"


def gpu(
    *vgpus: VGPUDevice,
    device: str = A2,
    mode: str = "SameSize",
    functions: int = 4,
    instances: dict[str, list[str]] | None = None,
    driver: str = "nvidia",
    group: str = "17",
) -> Gpu:
    there = {one.spec.address: one for one in vgpus}
    addresses = [f"0000:08:00.{number}" for number in range(4, 4 + functions)]
    profiles = [
        MigProfileStatus(name=f"MIG {name}", vgpu_ids=ids)
        for name, ids in (instances or {}).items()
    ]
    return Gpu(
        device=SRIOVGPUDevice(
            metadata=ObjectMeta(name="node1-000008000"),
            spec=SRIOVGPUDeviceSpec(address=ADDRESS, node_name="node1"),
            status=SRIOVGPUDeviceStatus(vf_addresses=addresses, mode=mode),
        ),
        pci=PCIDevice(
            status=PCIDeviceStatus(
                device_id=device,
                class_id="0302",
                kernel_driver_in_use=driver,
                iommu_group=group,
                sriov=PCIDeviceSriov(total_vfs=4, num_vfs=functions),
            )
        ),
        vgpus=tuple(there.get(address, vgpu(address)) for address in addresses),
        mig=MigConfiguration(status=MigConfigurationStatus(profile_status=profiles)),
    )


def vgpu(address: str, profile: str = "", **status: Any) -> VGPUDevice:
    return VGPUDevice(
        spec=VGPUDeviceSpec(address=address, parent_gpu_device_address=ADDRESS),
        status=VGPUDeviceStatus(
            vgpu_status="vGPUConfigured" if profile else "",
            configure_vgpu_type_name=profile,
            framework="vendor-vfio",
            **status,
        ),
    )


def plan(one: Gpu, wanted: dict[str, int], mode: str = "", **holders: str) -> Planned:
    found = planned(one, wanted, mode, {f"0000:08:00.{k[1:]}": v for k, v in holders.items()})
    assert found is not None
    return found


def test_what_is_missing_is_made_and_the_rest_still_fits() -> None:
    found = plan(gpu(vgpu("0000:08:00.4", Q4)), {Q4: 2})
    assert [step.partition(" on ")[0] for step in found.steps] == ["configure A2-4Q"]
    assert found.fits[Q4] == 2
    assert found.fits[Q8] == 0


def test_a_gpu_that_is_not_enabled_gets_its_functions_first() -> None:
    found = plan(gpu(functions=0, mode="Passthrough"), {Q4: 2})
    assert found.steps[0].startswith("enable the 4 virtual functions")
    assert found.steps[-1] == "configure A2-4Q=2"


@pytest.mark.parametrize(
    ("one", "wanted", "mode", "why"),
    [
        (gpu(), {Q4: 1, Q8: 1}, "", "must have one size"),
        (gpu(), {Q4: 5}, "", "4 of 0000:08:00.0 can have one"),
        (gpu(), {Q8: 3}, "", "at most 2 fit"),
        (gpu(), {}, "MIGBacked", "MIG"),
        (gpu(), {Q4: 1}, "Passthrough", "cannot have A2-4Q"),
        (gpu(device=A100), {C3: 3}, "", "3g.20gb"),
        (gpu(driver="vfio-pci"), {Q4: 1}, "", "vfio-pci"),
        (gpu(functions=0, mode="Passthrough", group=""), {Q4: 1}, "", "The IOMMU is off"),
    ],
)
def test_what_speaks_against_it_is_said_in_the_words_of_the_agent(
    one: Gpu, wanted: dict[str, int], mode: str, why: str
) -> None:
    found = plan(one, wanted, mode)
    assert any(why in words for words in found.refusals), found
    assert not found.steps


def test_a_vgpu_that_is_held_is_not_taken_away() -> None:
    one = gpu(vgpu("0000:08:00.4", Q4))
    found = plan(one, {Q8: 1}, f4="VM default/desk")
    assert "VM default/desk" in found.refusals[0]
    assert plan(one, {Q4: 2}, f4="VM default/desk").refusals == ()


def test_gpu_instances_that_stay_keep_their_vgpus_and_others_make_way() -> None:
    one = gpu(
        vgpu("0000:08:00.4", C3, gpu_instance=1),
        vgpu("0000:08:00.5", C1, gpu_instance=11),
        device=A100,
        mode="MIGBacked",
        instances={"3g.20gb": ["1"], "1g.5gb": ["11"]},
    )
    found = plan(one, {C3: 1, C2: 1})
    assert found.has_mig
    # 2g.10gb begins at 0, 2 or 4.
    assert [(place.profile, place.start) for place in found.added] == [("2g.10gb", 4)]
    assert found.removed == {11}
    assert [(inside.profile, inside.start, inside.address) for inside in found.inside] == [
        (C3, 0, "0000:08:00.4"),
        (C2, 4, ""),
    ]


def test_a_gpu_that_is_not_in_mig_mode_yet_is_drawn_as_it_will_be_divided() -> None:
    found = plan(gpu(device=A100), {C3: 1, C1: 2})
    assert found.steps[0].startswith("disable the 4 virtual functions")
    assert sorted((place.profile, place.start) for place in found.added) == [
        ("1g.5gb", 4),
        ("1g.5gb", 5),
        ("3g.20gb", 0),
    ]
    assert sorted(inside.start for inside in found.inside) == [0, 4, 5]


def test_without_the_card_nothing_is_known() -> None:
    one = Gpu(device=SRIOVGPUDevice(spec=SRIOVGPUDeviceSpec(address=ADDRESS)))
    assert planned(one, {Q4: 1}, "", {}) is None
