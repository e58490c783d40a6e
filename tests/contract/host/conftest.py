"""Devices on a simulated host and, inside the kernel rig, on a real kernel.

The tests of this folder are the contract between both: what passes on one and fails on the other
is a mistake of the simulation. `LANEWAY_RIG` is set in the rig's guest to the driver's framework.
Every test finds the devices as they were; in a guest, where they outlive it, what a test changed
is put back by plain writes.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from laneway.core.inventory import Inventory, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import CreateMdev, SetVgpuType, Step
from laneway.core.programs import SRIOV_MANAGE
from laneway.core.vgpu.desired import NO_VGPU, mdev_uuid
from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.sim.spec import Spec, build
from support.machines import Machine, RigMachine, SimulatedMachine

RIG = os.environ.get("LANEWAY_RIG", "")

# What needs a simulated host: a process killed at every write, cards that the rig lacks, and laws,
# which try more than a guest has time for. Importing these modules alone takes a guest ten seconds.
SIMULATED = [
    "test_boot_contract.py",
    "test_capacity_laws.py",
    "test_crash_contract.py",
    "test_forecast_contract.py",
    "test_host_laws.py",
    "test_layout_laws_contract.py",
    "test_release_contract.py",
]
collect_ignore = SIMULATED if RIG else []

NODE = "node"
PCI = "/sys/bus/pci/devices"
MDEVS = "/sys/bus/mdev/devices"

# ---- what every device has ---------------------------------------------------


@dataclass(frozen=True)
class Device:
    """A function of a machine, with the plain reads and writes of a person at the shell."""

    machine: Machine
    address: PciAddress

    @property
    def host(self) -> Host:
        return self.machine.host

    def look(self) -> Inventory:
        return scan(self.host)

    def function(self, address: PciAddress | None = None) -> PciFunction:
        wanted = address or self.address
        return next(f for f in self.look().functions if f.address == wanted)

    def path(self, attribute: str = "", of: PciAddress | None = None) -> str:
        home = f"{PCI}/{of or self.address}"
        return f"{home}/{attribute}" if attribute else home

    def group_node(self, of: PciAddress | None = None) -> str:
        """The VFIO group of a function, as a VM opens it."""
        return _group_node(self.host, self.path(of=of))

    def unbind(self, of: PciAddress | None = None) -> None:
        function = of or self.address
        self.host.write(self.path("driver/unbind", function), str(function))

    def bind(self, driver: str, of: PciAddress | None = None) -> None:
        """Give a function to a driver, to the one that wants it when the name is empty."""
        function = of or self.address
        self.host.write(self.path("driver_override", function), driver or "\n")
        if self.driver(function):
            self.unbind(function)
        self.host.write("/sys/bus/pci/drivers_probe", str(function))

    def driver(self, of: PciAddress | None = None) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.host.readlink(self.path("driver", of)).rpartition("/")[2]
        return ""

    def virtfns(self) -> list[PciAddress]:
        """VFs in the order of their numbers, from links: reading those never waits."""
        names = (name for name in self.host.names(self.path()) if name.startswith("virtfn"))
        links = []
        for name in sorted(names, key=lambda name: int(name[6:])):
            with contextlib.suppress(FileNotFoundError):
                links.append(self.host.readlink(self.path(name)))
        return [PciAddress.parse(link.rpartition("/")[2]) for link in links]


def _group_node(host: Host, device: str) -> str:
    number = host.readlink(f"{device}/iommu_group").rpartition("/")[2]
    return f"/dev/vfio/{number}"


# ---- an SR-IOV GPU -----------------------------------------------------------


@dataclass(frozen=True)
class Gpu(Device):
    """An SR-IOV GPU whose VFs exist and carry nothing."""

    framework: str
    memory_gib: int

    def functions(self) -> tuple[VgpuFunction, ...]:
        return tuple(vgpu for vgpu in self.look().vgpus if vgpu.parent == self.address)

    def profile(self, size: str) -> VgpuType:
        """The type on offer, on whichever VF, whose name ends like this, such as `-4Q`."""
        offered = [kind for function in self.functions() for kind in function.creatable]
        found = [kind for kind in offered if kind.name.endswith(size)]
        assert found, f"no {size} on offer"
        return found[0]

    def creation(self, function: VgpuFunction, kind: VgpuType) -> Step:
        if self.framework == "mdev":
            uuid = mdev_uuid(NODE, function)
            return CreateMdev(function.address, kind.id, kind.name, uuid)
        return SetVgpuType(function.address, kind.id, NO_VGPU, kind.name)

    def create(self, function: VgpuFunction, kind: VgpuType) -> None:
        """One plain write, as a person at the shell would do it."""
        if self.framework == "mdev":
            path = self.path(f"mdev_supported_types/{kind.id}/create", function.address)
            self.host.write(path, mdev_uuid(NODE, function))
        else:
            self.host.write(self.path("nvidia/current_vgpu_type", function.address), kind.id)

    def removal(self, function: VgpuFunction) -> tuple[str, str]:
        """Path and text of the write that removes a vGPU."""
        if self.framework == "mdev":
            return f"{MDEVS}/{mdev_uuid(NODE, function)}/remove", "1"
        return self.path("nvidia/current_vgpu_type", function.address), NO_VGPU

    def remove(self, function: VgpuFunction) -> None:
        self.host.write(*self.removal(function))

    def vgpu_node(self, function: VgpuFunction) -> tuple[str, str]:
        """The VFIO group and the device of it that a VM with this vGPU opens."""
        if self.framework == "mdev":
            uuid = mdev_uuid(NODE, function)
            return _group_node(self.host, f"{MDEVS}/{uuid}"), uuid
        return self.group_node(function.address), str(function.address)

    async def switch(self, *, on: bool) -> None:
        """All VFs on or off, by the driver's own program."""
        argv = [SRIOV_MANAGE, "-e" if on else "-d", str(self.address)]
        done = await self.machine.executor.run(argv, seconds=60)
        assert done.status == 0, done.output

    def restore(self) -> None:
        """Undo what a test did to a GPU that outlives it."""
        _give_back(self)
        for vf in self.virtfns():
            _give_back(Device(self.machine, vf))
            vgpu = self.path("nvidia/current_vgpu_type", vf)
            if self.host.exists(vgpu) and self.host.read(vgpu).strip() != NO_VGPU.encode():
                self.host.write(vgpu, NO_VGPU)
        for uuid in self.host.names(MDEVS):
            self.host.write(f"{MDEVS}/{uuid}/remove", "1")
        self.host.write(self.path("simgpu/mixed_size"), "0")
        total = self.host.read(self.path("sriov_totalvfs")).decode().strip()
        if len(self.virtfns()) != int(total):
            if self.virtfns():
                self.bind("")  # its driver takes them along
            self.host.write(self.path("sriov_numvfs"), total)


def _give_back(device: Device) -> None:
    """Let the driver that wants it have a function again."""
    override = device.host.read(device.path("driver_override")).decode().strip()
    if override != "(null)" or not device.driver():
        device.bind("")


@functools.cache
def _in_the_guest() -> tuple[PciFunction, ...]:
    """What there is before the first test: a scan takes a good while in a guest."""
    return scan(RealHost()).functions


def _functions(machine: Machine) -> tuple[PciFunction, ...]:
    return _in_the_guest() if RIG else scan(machine.host).functions


def _rig_gpu() -> Gpu:
    machine = RigMachine()
    pf = next(f for f in _functions(machine) if f.sriov_gpu)
    gpu = Gpu(machine, pf.address, "mdev" if RIG == "mdev" else "vendor-vfio", memory_gib=16)
    if not gpu.virtfns():
        gpu.restore()
    return gpu


def _simulated_gpu(framework: str) -> Gpu:
    model, memory = {"mdev": ("a2", 16), "vendor-vfio": ("l40s", 48)}[framework]
    machine = SimulatedMachine(build(Spec(model), NODE))
    pf = next(f for f in scan(machine.host).functions if f.sriov_gpu)
    return Gpu(machine, pf.address, framework, memory)


@pytest.fixture(params=["rig"] if RIG else ["mdev", "vendor-vfio"])
def gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    found = _rig_gpu() if RIG else _simulated_gpu(request.param)
    yield found
    found.machine.close()
    if RIG:
        found.restore()


@pytest.fixture
def only(gpu: Gpu) -> Callable[[str], Gpu]:
    """Skip a test that says something about one framework only."""

    def check(framework: str) -> Gpu:
        if gpu.framework != framework:
            pytest.skip(f"this GPU is on {gpu.framework}")
        return gpu

    return check


# ---- a GPU with an audio function in its IOMMU group -------------------------


@dataclass(frozen=True)
class SharedGroup(Device):
    """A GPU that shares its IOMMU group with its audio function."""

    audio: PciAddress

    def restore(self) -> None:
        for function in (self.address, self.audio):
            override = self.host.read(self.path("driver_override", function)).decode().strip()
            if override != "(null)":
                self.bind("", function)
        if not self.driver():
            self.bind("")


@pytest.fixture
def shared_group() -> Iterator[SharedGroup]:
    machine = _machine("workstation")
    functions = _functions(machine)
    audio = next(f for f in functions if f.class_code.startswith("0403") and _below_a_port(f))
    gpu = next(f for f in functions if f.is_gpu and f.address[:3] == audio.address[:3])
    found = SharedGroup(machine, gpu.address, audio.address)
    yield found
    machine.close()
    if RIG:
        found.restore()


def _below_a_port(function: PciFunction) -> bool:
    return function.upstream is not None


# ---- SR-IOV of a device that is not a GPU -------------------------------------


@dataclass(frozen=True)
class Nvme(Device):
    """An NVMe controller with SR-IOV, without VFs; nothing else keeps these from vfio-pci."""

    total_vfs: int

    def switch(self, count: int) -> None:
        self.host.write(self.path("sriov_numvfs"), str(count))

    def give_to_vfio(self, vf: PciAddress) -> None:
        self.bind("vfio-pci", vf)
        assert self.driver(vf) == "vfio-pci"

    def restore(self) -> None:
        if self.virtfns():
            self.switch(0)
        self.host.write(self.path("sriov_drivers_autoprobe"), "1")
        _give_back(self)


@pytest.fixture
def nvme() -> Iterator[Nvme]:
    machine = _machine("workstation")
    pf = next(f for f in _functions(machine) if f.class_code == "010802" and f.total_vfs)
    found = Nvme(machine, pf.address, pf.total_vfs or 0)
    yield found
    machine.close()
    if RIG:
        found.restore()


def _machine(model: str) -> Machine:
    return RigMachine() if RIG else SimulatedMachine(build(Spec(model), NODE))
