"""What the tests in a guest of the kernel rig start from: a real sysfs with one simulated A2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.host.hardware import Hardware
from laneway.host.real import RealHost
from support.machines import RigMachine, hardware
from support.rig import GPU, switch


@pytest.fixture(scope="session", autouse=True)
def rig() -> str:
    """The framework of the guest's driver, `mdev` or `vendor`."""
    mode = os.environ.get("LANEWAY_RIG", "")
    if not mode:
        pytest.fail("these tests change hardware and run in the kernel rig only: make test-kernel")
    return mode


@pytest.fixture
def machine() -> Iterator[RigMachine]:
    found = RigMachine()
    yield found
    found.close()


@pytest.fixture
def host(machine: RigMachine) -> RealHost:
    return machine.host


@pytest.fixture
def node(machine: RigMachine, tmp_path: Path) -> Hardware:
    """The guest as plans see it."""
    return hardware(machine, tmp_path)


@pytest.fixture
def pf() -> PciAddress:
    return PciAddress.parse(GPU)


@pytest.fixture
def without_vfs(host: RealHost) -> None:
    switch(host, 0)


@pytest.fixture
def with_vfs(host: RealHost) -> None:
    switch(host, 16)
