"""What the tests of preparing a server start from: servers as the installer left them, running."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.disk_guests import ROOT, DiskGuest

LOADERS = ("grub", "systemd-boot")


@pytest.fixture(scope="session")
def cache() -> Path:
    """The folder that `rig/disk/setup.sh` filled."""
    folder = os.environ.get("LANEWAY_RIG_DISKS", "")
    if not folder:
        pytest.fail("these tests start servers from disks of the kernel rig: make test-kernel")
    # Here, where it takes seconds, and not in each guest, where what is compiled is lost.
    code = [ROOT / "src", *ROOT.glob("packages/*/src")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *code], check=True)
    return Path(folder)


@pytest.fixture
def servers(cache: Path) -> Iterator[Callable[[str], DiskGuest]]:
    """Makes a server with this boot loader, and starts it."""
    made: list[DiskGuest] = []

    with tempfile.TemporaryDirectory(prefix="lw") as short:

        def make(loader: str) -> DiskGuest:
            server = DiskGuest(loader, cache, Path(short) / str(len(made)))
            made.append(server)
            server.start()
            return server

        yield make
        for server in made:
            server.cut_power()


@pytest.fixture(params=LOADERS)
def server(request: pytest.FixtureRequest, servers: Callable[[str], DiskGuest]) -> DiskGuest:
    """A server as the installer left it, with each boot loader in turn."""
    return servers(request.param)
