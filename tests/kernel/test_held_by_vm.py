"""A virtual machine holds a vGPU and another VF while Laneway is asked to take them away."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import DeviceHeld
from laneway.core.release.device import release
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError, execute
from laneway.host.scan import scan
from laneway.host.situation import observe

PCI = "/sys/bus/pci/devices"
UUID = str(uuid.UUID(int=4))

Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def vgpu(rig: str, host: Any, with_vfs: None) -> tuple[PciAddress, str]:
    """A VF with an A2-8Q, and QEMU's words for it."""
    function = scan(host).vgpus[0]
    kind = next(kind for kind in function.creatable if kind.name.endswith("-8Q"))
    home = f"{PCI}/{function.address}"
    if rig == "mdev":
        host.write(f"{home}/mdev_supported_types/{kind.id}/create", UUID)
        return function.address, f"sysfsdev=/sys/bus/mdev/devices/{UUID}"
    host.write(f"{home}/nvidia/current_vgpu_type", kind.id)
    return function.address, f"host={function.address}"


@pytest.fixture
def other(rig: str, host: Any, with_vfs: None) -> Iterator[PciAddress]:
    """A VF on vfio-pci, or where no VF can be there, one with another A2-8Q."""
    vf = scan(host).vgpus[1].address
    if rig != "mdev":
        host.write(f"{PCI}/{vf}/nvidia/current_vgpu_type", "747")
        yield vf
        return
    host.write(f"{PCI}/{vf}/driver_override", "vfio-pci")
    host.write(f"{PCI}/{vf}/driver/unbind", str(vf))
    host.write("/sys/bus/pci/drivers_probe", str(vf))
    yield vf
    if host.exists(f"{PCI}/{vf}"):
        host.write(f"{PCI}/{vf}/driver_override", "\n")


@pytest.fixture
def start_vm(vgpu: tuple[PciAddress, str], other: PciAddress) -> Iterator[Start]:
    """Starts a QEMU that has both; its CPU stands still, but VFIO has attached them."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        command = [
            *os.environ.get("QEMU", "qemu-system-x86_64").split(),
            *("-S", "-accel", "tcg,tb-size=16", "-cpu", "qemu64", "-M", "q35", "-m", "64"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-monitor", "stdio"),
            *("-device", f"vfio-pci,{vgpu[1]},addr=03.0"),
            *("-device", f"vfio-pci,host={other},addr=04.0"),
        ]
        vm = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(vm)
        assert vm.stdin is not None
        assert vm.stdout is not None
        vm.stdin.write("info pci\n")
        vm.stdin.flush()
        seen = ""
        while "PCI device 10de:25b6" not in seen:
            line = vm.stdout.readline()
            assert line, seen
            seen += line
        return vm

    yield start
    for vm in started:
        stop(vm)


def stop(vm: subprocess.Popen[str]) -> None:
    if vm.poll() is None:
        vm.communicate("quit\n", timeout=60)


async def remove(node: Hardware, address: PciAddress) -> object:
    return release(address, await observe(node, "node", [address]))


def visible(inventory: Inventory) -> object:
    return inventory.functions, inventory.vgpus


async def test_what_a_vm_holds_is_not_touched_and_goes_once_the_vm_has_ended(
    node: Hardware,
    pf: PciAddress,
    vgpu: tuple[PciAddress, str],
    other: PciAddress,
    start_vm: Start,
) -> None:
    host = node.host
    targets = (vgpu[0], other, pf)
    plans = {address: await remove(node, address) for address in targets}
    assert all(isinstance(plan, Plan) for plan in plans.values())
    vm = start_vm()
    before = visible(scan(host))

    for address, plan in plans.items():
        # Asked now: the holder is found before there is a plan.
        refusals = await remove(node, address)
        assert isinstance(refusals, tuple), refusals
        held = [refusal for refusal in refusals if isinstance(refusal, DeviceHeld)]
        assert held == list(refusals)
        said = " ".join(refusal.words for refusal in held)
        assert str(vm.pid) in said
        assert "qemu-system" in said
        # Planned before the machine started: it is found before the write.
        assert isinstance(plan, Plan)
        with pytest.raises(StepError) as failure:
            await execute(node, plan, actor="test", reason="held by a VM")
        assert isinstance(failure.value.refusal, DeviceHeld)
        assert str(vm.pid) in failure.value.refusal.words
        assert not failure.value.undone
        assert visible(scan(host)) == before
        assert vm.poll() is None
    assert done(node) == []

    stop(vm)
    await execute(node, plans[pf], actor="test", reason="the VM has ended")  # type: ignore[arg-type]
    assert await remove(node, pf) == Satisfied()
    assert not host.exists(f"{PCI}/{other}")
    assert done(node)


def done(node: Hardware) -> list[str]:
    """What the audit record says was written."""
    lines = Path(node.state.audit).read_text().splitlines()
    return [line for line in lines if json.loads(line)["outcome"] in ("done", "undone")]
