"""vGPUs as found on both frameworks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.host.vgpu import read_parameters
from laneway.sim import dump
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from laneway.sim.tree import Tree

MakeHost = Callable[..., SimulatedHost]
Address = Callable[[str], PciAddress]

PF = """
    P: /devices/pci0000:00/0000:08:00.0
    E: SUBSYSTEM=pci
    E: DRIVER=nvidia
    E: PCI_CLASS=30200
    E: PCI_ID=10DE:26B9
    A: sriov_totalvfs=32\\n
    A: sriov_vf_device=26b9\\n
"""


def vf(number: int, *lines: str) -> str:
    return "\n".join(
        (
            "",
            f"P: /devices/pci0000:00/0000:08:00.{number}",
            "E: SUBSYSTEM=pci",
            "E: DRIVER=nvidia",
            "E: PCI_CLASS=30200",
            "E: PCI_ID=10DE:26B9",
            "L: physfn=../0000:08:00.0",
            *lines,
            "",
        )
    )


class Bare:
    """A host as recorded, without the simulation's driver that would mend it."""

    def __init__(self, text: str) -> None:
        lines = "\n".join(line.strip() for line in text.strip().splitlines())
        self.tree = Tree()
        for block in dump.parse(lines + "\n"):
            home = f"/sys{block.path}"
            self.tree.mkdir(home)
            for name, value in block.attributes.items():
                self.tree.put(f"{home}/{name}", value)
            for name, target in block.links.items():
                self.tree.put(f"{home}/{name}", target)
            uevent = "".join(f"{key}={value}\n" for key, value in block.properties.items())
            self.tree.put(f"{home}/uevent", uevent.encode())
            if block.properties.get("SUBSYSTEM") == "pci":
                self.tree.link(f"/sys/bus/pci/devices/{home.rpartition('/')[2]}", home)


def vgpus(text: str) -> tuple[dict[int, VgpuFunction], list[str]]:
    inventory = scan(Bare(text).tree)  # type: ignore[arg-type]
    found = {vgpu.address.function: vgpu for vgpu in inventory.vgpus}
    return found, [f"{error.device} {error.message}" for error in inventory.errors]


def test_the_recorded_server_has_three_vgpus_on_sixteen_vfs(
    a2_dump_path: Path, address: Address
) -> None:
    inventory = scan(build(parse_spec(str(a2_dump_path)), "node"))
    gpus = [function for function in inventory.functions if function.sriov_gpu]
    assert [gpu.address for gpu in gpus] == [address("08:00.0")]
    assert list(gpus[0].vfs) == [vgpu.address for vgpu in inventory.vgpus]
    assert len(gpus[0].vfs) == gpus[0].num_vfs == 16
    assert {vgpu.framework for vgpu in inventory.vgpus} == {"mdev"}
    assert {str(v.address): v.configured for v in inventory.vgpus if v.configured} == {
        "0000:08:00.4": ConfiguredVgpu(
            "nvidia-754", "NVIDIA A2-4C", "f715f63c-0d00-4007-9c5a-b07b0c6c05de", 106
        ),
        "0000:08:00.6": ConfiguredVgpu(
            "nvidia-751", "NVIDIA A2-4A", "3deab9a4-200a-4c54-99b1-5eb0722d1d81", 108
        ),
        "0000:08:02.0": ConfiguredVgpu(
            "nvidia-746", "NVIDIA A2-4Q", "c728e022-f16f-434b-ad2c-9665ee634d3d", 107
        ),
    }
    assert inventory.errors == ()


@pytest.mark.parametrize("model", ["a2", "l40s"])
def test_the_framework_is_that_of_the_driver(model: str) -> None:
    inventory = scan(build(parse_spec(model), "node"))
    assert {v.framework for v in inventory.vgpus} == {"mdev" if model == "a2" else "vendor-vfio"}
    assert all(v.supported and v.creatable == v.supported for v in inventory.vgpus)


def test_mdev_types_are_creatable_while_instances_are_left() -> None:
    types = "mdev_supported_types/nvidia"
    found, errors = vgpus(
        PF
        + vf(
            4,
            f"A: {types}-1000/name=NVIDIA L40S-8Q\\n",
            f"A: {types}-1000/available_instances=0\\n",
            f"A: {types}-222/name=NVIDIA L40S-4Q\\n",
            f"A: {types}-222/available_instances=1\\n",
            "A: mdev_supported_types/i915-GVTg_V5_4/available_instances=1\\n",
        )
    )
    small, large = (
        VgpuType("nvidia-222", "NVIDIA L40S-4Q"),
        VgpuType("nvidia-1000", "NVIDIA L40S-8Q"),
    )
    assert found[4].supported == (small, large)
    assert found[4].creatable == (small,)
    assert found[4].configured is None
    assert errors == []


def test_one_card_may_be_on_each_framework() -> None:
    found, _ = vgpus(
        PF
        + vf(1, "A: mdev_supported_types/nvidia-1/name=A\\n")
        + vf(2, "A: nvidia/current_vgpu_type=0\\n")
        + vf(3)
        + vf(4, "A: nvidia/other=1\\n")
    )
    assert {number: vgpu.framework for number, vgpu in found.items()} == {
        1: "mdev",
        2: "vendor-vfio",
    }
    assert {vgpu.configured for vgpu in found.values()} == {None}


def test_a_full_card_gets_its_names_from_siblings_and_the_catalogue() -> None:
    header = "ID    : vGPU Name\\n"
    found, errors = vgpus(
        PF
        + vf(
            1,
            "A: nvidia/current_vgpu_type=1150\\n",
            f"A: nvidia/creatable_vgpu_types={header}",
        )
        + vf(
            2,
            "A: nvidia/current_vgpu_type=0\\n",
            f"A: nvidia/creatable_vgpu_types={header}1150  : NVIDIA Renamed-4Q\\n",
        )
        + vf(3, "A: nvidia/current_vgpu_type=1151\\n", f"A: nvidia/creatable_vgpu_types={header}")
        + vf(4, "A: nvidia/current_vgpu_type=999999\\n")
    )
    assert found[1].configured == ConfiguredVgpu("1150", "NVIDIA Renamed-4Q")
    assert found[1].creatable == ()
    assert found[2].creatable == found[2].supported == (VgpuType("1150", "NVIDIA Renamed-4Q"),)
    assert found[3].configured == ConfiguredVgpu("1151", "NVIDIA L40S-6Q")
    assert found[4].configured == ConfiguredVgpu("999999", "")
    assert errors == []


def test_what_makes_no_sense_is_reported_and_the_rest_kept() -> None:
    uuid = "f715f63c-0d00-4007-9c5a-b07b0c6c05d"
    found, errors = vgpus(
        PF
        + vf(
            1,
            "A: nvidia/current_vgpu_type=many\\n",
            "A: nvidia/creatable_vgpu_types=ID : vGPU Name\\nnonsense\\n12 : NVIDIA L40S-4Q\\n",
        )
        + vf(
            2,
            f"L: {uuid}0/mdev_type=../mdev_supported_types/nvidia-12",
            f"L: {uuid}1/mdev_type=../mdev_supported_types/nvidia-13",
        )
        + vf(3, f"L: {uuid}2/mdev_type=../elsewhere")
    )
    assert found[1].configured is None
    assert [kind.id for kind in found[1].creatable] == ["12"]
    assert found[2].configured == ConfiguredVgpu("nvidia-12", "", f"{uuid}0")
    assert found[3].configured is None
    assert [error.partition(": ")[0] for error in errors] == [
        "0000:08:00.1 nvidia/creatable_vgpu_types",
        "0000:08:00.1 nvidia/current_vgpu_type",
        "0000:08:00.2 carries 2 vGPUs where one is possible",
        f"0000:08:00.3 {uuid}2",
    ]


def test_where_a_vgpu_sits_and_its_parameters_are_read() -> None:
    host = Bare(
        PF
        + vf(
            4,
            "A: nvidia/current_vgpu_type=1145\\n",
            "A: nvidia/creatable_vgpu_types=ID    : vGPU Name\\n",
            "A: nvidia/placement_id=24\\n",
            "A: nvidia/gpu_instance_id=3\\n",
            "A: nvidia/vgpu_params=frame_rate_limiter=0\\n",
        )
        + vf(
            5,
            "A: nvidia/current_vgpu_type=1145\\n",
            "A: nvidia/placement_id=Not Applicable\\n",
        )
        + vf(6, "A: nvidia/current_vgpu_type=0\\n", "A: nvidia/vgpu_params=x=1\\n")
    )
    inventory = scan(host.tree)  # type: ignore[arg-type]

    placed, unplaced, none = (vgpu.configured for vgpu in inventory.vgpus)
    assert placed is not None
    assert unplaced is not None
    assert none is None
    assert (placed.placement, placed.gpu_instance) == (24, 3)
    assert (unplaced.placement, unplaced.gpu_instance) == (None, None)
    assert inventory.errors == ()
    parameters = read_parameters(host.tree, inventory.vgpus)  # type: ignore[arg-type]
    assert {str(at): value for at, value in parameters.items()} == {
        "0000:08:00.4": "frame_rate_limiter=0"
    }
