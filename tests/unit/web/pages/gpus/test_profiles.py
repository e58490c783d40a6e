"""Profiles as fields: which there are, and what may stand in them."""

from __future__ import annotations

from laneway.api import (
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceStatus,
)
from laneway.views.gpus import Gpu
from laneway.web.pages.gpus.profiles import common, counts_in, kinds_of
from laneway.web.place import Place

A2 = PCIDeviceStatus(device_id="25b6", subsystem_device_id="157e")
A100 = PCIDeviceStatus(device_id="20f1")


def gpu(card: PCIDeviceStatus, mode: str = "", **fits: int) -> Gpu:
    names = {f"GRID A100-{name}": count for name, count in fits.items()}
    status = SRIOVGPUDeviceStatus(fits=names, mode=mode)
    device = SRIOVGPUDevice(metadata=ObjectMeta(name="gpu"), status=status)
    return Gpu(device=device, pci=PCIDevice(status=card))


def test_profiles_stand_by_size_and_series_and_those_of_instances_apart() -> None:
    found = kinds_of(gpu(A2))
    assert found.series(found.sliced) == ["Q", "C", "B", "A"]
    assert [size.title for size in found.sliced][:3] == ["1 GiB", "2 GiB", "3 GiB"]
    assert [cell.short for cell in found.sliced[0].cells.values()].count("A2-1Q") == 1
    assert not found.backed
    backed = kinds_of(gpu(A100)).backed
    assert (backed[0].slices, backed[0].title) == (1, "5 GiB")


def test_the_driver_says_the_name_and_what_is_left() -> None:
    # The catalogue calls it NVIDIA or GRID, as releases of the driver do; one of them is shown.
    cells = {cell.short: cell for cell in kinds_of(gpu(A100, **{"8C": 2})).cells}
    assert cells["A100-8C"].name == "GRID A100-8C"
    assert (cells["A100-8C"].left, cells["A100-8C"].maximum) == (2, 5)
    assert cells["A100-4C"].left is None


def test_what_does_not_fit_on_an_empty_gpu_is_not_offered_by_its_driver() -> None:
    counts = {"8C": 0, "1-5C": 0}
    cells = {cell.short: cell for cell in kinds_of(gpu(A100, "SameSize", **counts)).cells}
    assert not cells["A100-8C"].offered
    assert cells["A100-4C"].offered, "nothing is known about it"
    instance = cells["A100-1-5C"]
    assert (instance.offered, instance.left) == (True, None), "its GPU instance would be created"
    cells = {cell.short: cell for cell in kinds_of(gpu(A100, "MIGBacked", **counts)).cells}
    assert cells["A100-8C"].offered, "in another mode"


def test_several_gpus_are_offered_what_all_of_them_have() -> None:
    assert common([gpu(A2), gpu(A100)]).cells == []
    assert len(common([gpu(A2), gpu(A2)]).cells) == len(kinds_of(gpu(A2)).cells)
    assert common([]).cells == []


def test_what_is_no_count_is_a_problem_of_its_field() -> None:
    kinds = kinds_of(gpu(A2))
    typed = {"A2-1Q": "2", "A2-2Q": "0", "A2-4Q": "x", "A2-8Q": "65", "A2-16Q": "1" * 5000}
    place = Place(path="/", query=tuple((f"vgpu:{name}", text) for name, text in typed.items()))
    found = counts_in(place, kinds)
    assert list(found.vgpus.values()) == [2]
    assert set(found.problems) == {"vgpu:A2-4Q", "vgpu:A2-8Q", "vgpu:A2-16Q"}
    assert found.texts["vgpu:A2-4Q"] == "x"
