"""Passthrough on kernels that have vfio-pci loaded, as a module, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.decision import Decision
from laneway.core.passthrough.binding import bind
from laneway.core.pci import PciAddress
from laneway.core.plan import LoadModule, Plan
from laneway.core.refusals import VfioMissing
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError, execute
from laneway.host.plans.operations import operation_of
from laneway.host.plans.operations.operation import State
from laneway.host.situation import observe
from laneway.sim.host import SimulatedHost
from laneway.sim.modules import Availability
from laneway.sim.spec import build, parse_spec
from support.plans import BRIEF, hardware_of

GPU = PciAddress.parse("0000:08:00.0")
DRIVER = f"/sys/bus/pci/devices/{GPU}/driver"
LOAD = LoadModule("vfio-pci")


def workstation(folder: Path, vfio: Availability) -> Hardware:
    return hardware_of(build(parse_spec("workstation"), "node1", vfio=vfio), folder)


async def decided(hardware: Hardware) -> Decision:
    return bind(GPU, await observe(hardware, "node1", [GPU]))


async def carry_out(hardware: Hardware) -> None:
    plan = await decided(hardware)
    assert isinstance(plan, Plan)
    await execute(hardware, plan, actor="test", reason="", limits=BRIEF)


async def loaded(hardware: Hardware) -> State:
    return (await operation_of(LOAD).state(hardware, LOAD)).state


async def test_a_module_is_loaded_before_its_driver_is_asked(tmp_path: Path) -> None:
    hardware = workstation(tmp_path, "loadable")
    assert await loaded(hardware) is State.BEFORE

    await carry_out(hardware)

    assert await loaded(hardware) is State.AFTER
    assert hardware.host.readlink(DRIVER).endswith("/vfio-pci")


async def test_what_is_loaded_is_not_loaded_again(tmp_path: Path) -> None:
    plan = await decided(workstation(tmp_path, "ready"))
    assert isinstance(plan, Plan)
    assert LOAD not in plan.steps


async def test_a_kernel_without_the_module_is_refused_by_its_release(tmp_path: Path) -> None:
    hardware = workstation(tmp_path, "missing")
    release = hardware.host.read("/proc/sys/kernel/osrelease").decode().strip()
    assert await decided(hardware) == (VfioMissing(release),)


async def test_a_module_that_does_not_load_leaves_the_device_where_it_was(tmp_path: Path) -> None:
    hardware = workstation(tmp_path, "loadable")
    assert isinstance(hardware.host, SimulatedHost)
    hardware.host.faults.fail_command("modprobe", 1, "modprobe: ERROR: Key was rejected\n")

    with pytest.raises(StepError, match="status 1: modprobe: ERROR: Key was rejected"):
        await carry_out(hardware)

    assert hardware.host.readlink(DRIVER).endswith("/nvidia")
    assert await loaded(hardware) is State.BEFORE
