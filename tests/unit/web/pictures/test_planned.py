"""How a GPU would be after a change."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import (
    Allocation,
    PCIDevice,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.core.mig.positions import Position
from laneway.views.gpus import Gpu
from laneway.web.pictures.drawing import Change, GpuDrawing, Part, compared
from laneway.web.pictures.of_gpu import Links, drawing_of
from laneway.web.pictures.planned import with_instances, with_vgpus

GIB = 1024
Q2, Q4, Q8 = "NVIDIA A2-2Q", "NVIDIA A2-4Q", "NVIDIA A2-8Q"
LINKS = Links(vgpu=lambda _: "", holder=lambda _: None)
HELD = Allocation(namespace="default", virtual_machine="web")


def vgpu(number: int, profile: str = "", **status: Any) -> VGPUDevice:
    return VGPUDevice(
        spec=VGPUDeviceSpec(address=f"0000:08:00.{number}"),
        status=VGPUDeviceStatus(
            vgpu_status="vGPUConfigured" if profile else "",
            configure_vgpu_type_name=profile,
            **status,
        ),
    )


def gpu(*vgpus: VGPUDevice, mode: str = "SameSize") -> Gpu:
    return Gpu(
        device=SRIOVGPUDevice(status=SRIOVGPUDeviceStatus(mode=mode)),
        pci=PCIDevice(status=PCIDeviceStatus(device_id="25b6")),
        vgpus=vgpus,
    )


def marked(before: Gpu, after: GpuDrawing | None) -> tuple[list[tuple[str, Change]], ...]:
    now = drawing_of(before, LINKS)
    assert now is not None
    assert after is not None
    return tuple(
        [(part.name, part.change) for part in one.occupied] for one in compared(now, after)
    )


def test_what_is_desired_stays_and_the_rest_goes() -> None:
    one = gpu(vgpu(4, Q4), vgpu(5, Q4, allocation=HELD), vgpu(6))
    was, becomes = marked(one, with_vgpus(one, {Q4: 1}, mixed=False, links=LINKS))
    assert was == [("A2-4Q", Change.REMOVED), ("A2-4Q", Change.NONE)]
    assert becomes == [("A2-4Q", Change.NONE)]


def test_new_vgpus_are_where_the_driver_will_put_them() -> None:
    one = gpu(vgpu(4, Q4, placement=0), vgpu(5), vgpu(6), mode="MixedSize")
    after = with_vgpus(one, {Q4: 1, Q8: 1}, mixed=True, links=LINKS)
    assert after is not None
    assert [(part.start // GIB, part.name) for part in after.parts] == [
        (0, "A2-4Q"),
        (4, ""),
        (8, "A2-8Q"),
    ]
    assert marked(one, after)[1] == [("A2-4Q", Change.NONE), ("A2-8Q", Change.NEW)]


def test_another_mode_takes_what_is_not_in_use() -> None:
    one = gpu(vgpu(4, Q4, placement=0), vgpu(5), vgpu(6), mode="MixedSize")
    after = with_vgpus(one, {Q4: 2}, mixed=False, links=LINKS)
    assert after is not None
    assert [part.name for part in after.parts] == ["A2-4Q", "A2-4Q", ""]
    assert not after.placed


def test_in_mixed_sizes_all_are_made_again_so_every_place_is_known() -> None:
    one = gpu(vgpu(4, Q4), vgpu(5), vgpu(6))
    after = with_vgpus(one, {Q4: 1, Q8: 1}, mixed=True, links=LINKS)
    assert after is not None
    assert after.placed


def test_a_gpu_without_virtual_functions_can_be_planned() -> None:
    after = with_vgpus(gpu(mode=""), {Q4: 3}, mixed=False, links=LINKS)
    assert after is not None
    assert [part.name for part in after.parts] == ["A2-4Q", "A2-4Q", "A2-4Q", ""]
    assert {one.name.text for part in after.parts for one in part.vgpus} == {""}


@pytest.mark.parametrize(
    ("wanted", "mixed"),
    [
        ({Q4: 5}, False),
        ({Q4: 1, Q8: 1}, False),
        ({Q8: 2, Q4: 1}, True),
        ({"NVIDIA Z9-4Q": 1}, True),
    ],
)
def test_what_does_not_fit_has_no_picture(wanted: dict[str, int], *, mixed: bool) -> None:
    one = gpu(*(vgpu(number) for number in range(4, 8)))
    assert with_vgpus(one, wanted, mixed=mixed, links=LINKS) is None


def test_more_vgpus_than_functions_have_no_picture() -> None:
    assert with_vgpus(gpu(vgpu(4)), {Q4: 2}, mixed=False, links=LINKS) is None


def test_gpu_instances_are_added_at_their_places_and_taken_away_by_id() -> None:
    there = Part(start=0, mib=20 * GIB, name="3g.20gb", id=1, compute=3)
    before = GpuDrawing(
        title="A100", mib=40 * GIB, parts=(there, Part(start=20 * GIB, mib=20 * GIB)), compute=7
    )
    more = with_instances(before, [Position("1g.5gb", 5, 1)])
    assert [(part.start // GIB, part.name) for part in more.parts] == [
        (0, "3g.20gb"),
        (20, ""),
        (25, "1g.5gb"),
        (30, ""),
    ]
    assert [part.change for part in compared(before, more)[1].occupied] == [
        Change.NONE,
        Change.NEW,
    ]
    assert [part.name for part in with_instances(before, [], {1}).parts] == [""]
