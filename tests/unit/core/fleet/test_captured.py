"""A host as a capture shows it, as a fleet: what it has, and what is said to be assumed."""

from __future__ import annotations

from laneway.core.fleet.captured import captured
from laneway.core.fleet.model import Framework
from laneway.core.gpu.modes import Mode
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction
from laneway.core.pci import PciAddress, PciFunction

_GPU = PciAddress.parse("0000:08:00.0")


def _host(*vgpus: ConfiguredVgpu | None) -> Inventory:
    return Inventory(
        functions=(
            PciFunction(
                address=_GPU, vendor="10de", device="26b9", class_code="030200", sriov_gpu=True
            ),
        ),
        vgpus=tuple(
            VgpuFunction(
                address=PciAddress.parse(f"0000:08:01.{number}"),
                parent=_GPU,
                framework="vendor-vfio",
                supported=(),
                creatable=(),
                configured=one,
            )
            for number, one in enumerate(vgpus)
        ),
    )


def test_vgpus_are_there_and_it_is_said_that_their_vms_are_not_known() -> None:
    fleet = captured("n", _host(ConfiguredVgpu("1150", "NVIDIA L40S-4Q", placement=8), None))
    (gpu,) = fleet.gpus
    assert (gpu.name, gpu.board, gpu.functions) == ("n-000008000", "L40S", 2)
    assert gpu.framework is Framework.VENDOR_VFIO
    assert {"NVIDIA L40S-4Q", "NVIDIA L40S-48Q"} <= set(gpu.profiles)
    assert [(one.name, one.slot, one.holder) for one in gpu.vgpus] == [("n-000008010", 8, "")]
    assert fleet.unreadable == (
        "a capture has no holders: the vGPUs of n-000008000 count as free",
        "a capture does not record the mode of n-000008000; SameSize is assumed",
    )


def test_a_mode_is_known_where_vgpus_show_it() -> None:
    small, large = (ConfiguredVgpu("", f"NVIDIA L40S-{size}Q") for size in (4, 8))
    inside = ConfiguredVgpu("", "NVIDIA L40S-4Q", gpu_instance=1)
    for vgpus, mode in (((small, large), Mode.MIXED_SIZE), ((inside,), Mode.MIG_BACKED)):
        fleet = captured("n", _host(*vgpus))
        assert fleet.gpus[0].mode == mode
        assert not any("the mode" in one for one in fleet.unreadable)
