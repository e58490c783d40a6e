"""One GPU with its VFs, on a simulated host and, inside the kernel rig, on a real kernel.

The tests of this folder are the contract between both: what passes on one and fails on the other
is a mistake of the simulation. `LANEWAY_RIG` is set in the rig's guest to the driver's framework.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from laneway.core.inventory import Inventory, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, SetVgpuType, Step
from laneway.core.vgpu import NO_VGPU, mdev_uuid
from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.sim.spec import Spec, build

RIG = os.environ.get("LANEWAY_RIG", "")
NODE = "node"


@dataclass(frozen=True)
class Gpu:
    """An SR-IOV GPU whose VFs exist and carry nothing."""

    host: Host
    address: PciAddress
    framework: str
    memory_gib: int

    def look(self) -> Inventory:
        return scan(self.host)

    def functions(self) -> tuple[VgpuFunction, ...]:
        return tuple(vgpu for vgpu in self.look().vgpus if vgpu.parent == self.address)

    def profile(self, size: str) -> VgpuType:
        """The type on offer whose name ends like this, such as `-4Q`."""
        offered = self.functions()[0].creatable
        return next(kind for kind in offered if kind.name.endswith(size))

    def creation(self, function: VgpuFunction, kind: VgpuType) -> Step:
        if self.framework == "mdev":
            uuid = mdev_uuid(NODE, function)
            return CreateMdev(function.address, kind.id, kind.name, uuid)
        return SetVgpuType(function.address, kind.id, NO_VGPU, kind.name)

    def create(self, function: VgpuFunction, kind: VgpuType) -> None:
        """One plain write, as a person at the shell would do it."""
        home = f"/sys/bus/pci/devices/{function.address}"
        if self.framework == "mdev":
            uuid = mdev_uuid(NODE, function)
            self.host.write(f"{home}/mdev_supported_types/{kind.id}/create", uuid)
        else:
            self.host.write(f"{home}/nvidia/current_vgpu_type", kind.id)

    def remove(self, function: VgpuFunction) -> None:
        if self.framework == "mdev":
            self.host.write(f"/sys/bus/mdev/devices/{mdev_uuid(NODE, function)}/remove", "1")
        else:
            home = f"/sys/bus/pci/devices/{function.address}"
            self.host.write(f"{home}/nvidia/current_vgpu_type", NO_VGPU)

    def clear(self) -> None:
        for function in self.functions():
            if function.configured is not None:
                self.remove(function)


def _in_the_rig() -> Gpu:
    host = RealHost()
    pf = next(f for f in scan(host).functions if f.sriov_gpu)
    if not pf.num_vfs:
        host.write(f"/sys/bus/pci/devices/{pf.address}/sriov_numvfs", str(pf.total_vfs))
    return Gpu(host, pf.address, "mdev" if RIG == "mdev" else "vendor-vfio", memory_gib=16)


def _simulated(framework: str) -> Gpu:
    model, memory = {"mdev": ("a2", 16), "vendor-vfio": ("l40s", 48)}[framework]
    host = build(Spec(model), NODE)
    pf = next(f for f in scan(host).functions if f.sriov_gpu)
    return Gpu(host, pf.address, framework, memory)


@pytest.fixture(params=["rig"] if RIG else ["mdev", "vendor-vfio"])
def gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    found = _in_the_rig() if RIG else _simulated(request.param)
    yield found
    found.clear()


@pytest.fixture
def only(gpu: Gpu) -> Callable[[str], Gpu]:
    """Skip a test that says something about one framework only."""

    def check(framework: str) -> Gpu:
        if gpu.framework != framework:
            pytest.skip(f"this GPU is on {gpu.framework}")
        return gpu

    return check
