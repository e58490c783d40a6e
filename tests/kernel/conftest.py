"""What the tests in a guest of the kernel rig start from: a real sysfs with one simulated A2."""

from __future__ import annotations

import os

import pytest

from laneway.core.pci import PciAddress
from laneway.host.real import RealHost

GPU = "0000:08:00.0"


@pytest.fixture(scope="session", autouse=True)
def rig() -> str:
    """The framework of the guest's driver, `mdev` or `vendor`."""
    mode = os.environ.get("LANEWAY_RIG", "")
    if not mode:
        pytest.fail("these tests change hardware and run in the kernel rig only: make test-kernel")
    return mode


@pytest.fixture
def host(rig: str) -> RealHost:
    return RealHost()


@pytest.fixture
def pf() -> PciAddress:
    return PciAddress.parse(GPU)


def _switch(host: RealHost, vfs: int) -> None:
    path = f"/sys/bus/pci/devices/{GPU}/sriov_numvfs"
    if int(host.read(path)) != vfs:
        host.write(path, str(vfs))


@pytest.fixture
def without_vfs(host: RealHost) -> None:
    _switch(host, 0)


@pytest.fixture
def with_vfs(host: RealHost) -> None:
    _switch(host, 16)
