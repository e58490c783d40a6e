"""Which vGPU, and which VM, a measurement is of."""

from __future__ import annotations

import pytest

from laneway.core.gpu.readings import VgpuReading, function_of, vm_of_domain
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction
from laneway.core.pci import PciAddress

GPU, OTHER = PciAddress.parse("0000:08:00.0"), PciAddress.parse("0000:09:00.0")
PROFILE = "NVIDIA L40S-4Q"


def function(number: int, gpu: PciAddress = GPU, **vgpu: object) -> VgpuFunction:
    configured = ConfiguredVgpu("1", PROFILE, **vgpu)  # type: ignore[arg-type]
    return VgpuFunction(
        address=gpu._replace(function=number),
        parent=gpu,
        framework="vendor-vfio",
        supported=(),
        creatable=(),
        configured=configured,
    )


def reading(**values: object) -> VgpuReading:
    return VgpuReading(gpu=GPU, id="1", profile=PROFILE, numbers={}, **values)  # type: ignore[arg-type]


def test_a_mediated_device_by_its_uuid() -> None:
    first, second = function(1, uuid="a"), function(2, uuid="b")
    assert function_of(reading(mdev="b"), [first, second]) == second
    assert function_of(reading(mdev="c"), [first, second]) is None


def test_a_placement_is_one_vgpus_alone() -> None:
    first, second = function(1, placement=0), function(2, placement=4)
    elsewhere, inside = function(3, OTHER, placement=4), function(4, placement=4, gpu_instance=2)
    known = [first, second, elsewhere, inside]
    assert function_of(reading(placement=4), known) == second
    assert function_of(reading(placement=4, gpu_instance=2), known) == inside


def test_what_is_not_certain_is_not_told() -> None:
    first, second = function(1), function(2)
    assert function_of(reading(), [first]) == first
    assert function_of(reading(), [first, second]) is None
    assert function_of(reading(placement=3), [first, second]) is None


@pytest.mark.parametrize(
    ("domain", "vm"),
    [
        ("desks_ann", ("desks", "ann")),
        ("guest=desks_ann.b-1,debug-threads=on", ("desks", "ann.b-1")),
        ("win10,debug-threads=on", ("", "win10")),
        ("a_b_c", ("", "a_b_c")),
        ("", ("", "")),
    ],
)
def test_a_vm_as_qemu_calls_it(domain: str, vm: tuple[str, str]) -> None:
    assert vm_of_domain(domain) == vm
