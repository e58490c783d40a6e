"""IOMMU groups where the ports do not isolate: a guest of its own, without ACS."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest

from laneway.core.passthrough.binding import bind
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import execute
from laneway.host.scan import scan
from laneway.host.situation import observe

pytestmark = pytest.mark.skipif(
    os.environ.get("LANEWAY_RIG_ACS") != "off", reason="the ports of this guest have ACS"
)

PCI = "/sys/bus/pci/devices"


def test_the_port_the_gpu_and_its_vfs_are_one_group(
    host: Any, pf: PciAddress, with_vfs: None
) -> None:
    functions = {function.address: function for function in scan(host).functions}
    gpu = functions[pf]
    assert gpu.upstream is not None
    members = [functions[gpu.upstream], gpu, *(functions[vf] for vf in gpu.vfs)]
    assert len(members) == 18
    assert len({member.iommu_group for member in members}) == 1


def test_one_vf_on_vfio_pci_makes_the_group_no_use_to_a_vm(
    machine: Any, pf: PciAddress, with_vfs: None
) -> None:
    host = machine.host
    vf = scan(host).vgpus[1].address
    host.write(f"{PCI}/{vf}/driver_override", "vfio-pci")
    host.write(f"{PCI}/{vf}/driver/unbind", str(vf))
    host.write("/sys/bus/pci/drivers_probe", str(vf))
    group = host.readlink(f"{PCI}/{vf}/iommu_group").rpartition("/")[2]

    with pytest.raises(OSError, match="/dev/vfio"):
        machine.hold(f"/dev/vfio/{group}", str(vf))

    host.write(f"{PCI}/{vf}/driver_override", "\n")
    host.write(f"{PCI}/{vf}/driver/unbind", str(vf))
    host.write("/sys/bus/pci/drivers_probe", str(vf))


async def test_a_vf_of_such_a_group_is_not_taken(
    node: Hardware, pf: PciAddress, with_vfs: None
) -> None:
    """With it would go the GPU and every other VF."""
    before = scan(node.host)
    vf = before.vgpus[2].address

    decision = bind(vf, await observe(node, "node", [vf]))

    assert isinstance(decision, tuple), decision
    assert any(str(pf) in refusal.words for refusal in decision)
    assert scan(node.host).functions == before.functions


async def test_a_vgpu_has_a_group_of_its_own_all_the_same(
    machine: Any, node: Hardware, pf: PciAddress, with_vfs: None
) -> None:
    function = scan(node.host).vgpus[0]
    kind = next(kind for kind in function.creatable if kind.name.endswith("-4Q"))
    made = str(uuid.UUID(int=7))
    step = CreateMdev(function.address, kind.id, kind.name, made)

    await execute(node, Plan((step,)), actor="test", reason="test")

    vgpu = scan(node.host).vgpus[0].configured
    assert vgpu is not None
    shared = node.host.readlink(f"{PCI}/{pf}/iommu_group").rpartition("/")[2]
    assert str(vgpu.iommu_group) != shared
    machine.hold(f"/dev/vfio/{vgpu.iommu_group}", made).release()
    node.host.write(f"/sys/bus/mdev/devices/{made}/remove", "1")
