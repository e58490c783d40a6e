"""A node without a driver, for containers of the driver toolkit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver_nodes import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    if os.environ.get("RIG_DRIVER") != "off":
        pytest.fail("these tests load modules and run in the kernel rig only: make test-kernel")
    cgroups = tmp_path / "cgroups"
    cgroups.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", cgroups], check=True)
    found = Node(tmp_path, cgroups)
    yield found
    found.end()
    subprocess.run(["umount", "-l", cgroups], check=True)


@pytest.fixture
def headers() -> Iterator[None]:
    """Install the headers of the guest's kernel, which the rig keeps in its cache."""
    links = [Path("/usr/src") / name.name for name in _headers()]
    for link, source in zip(links, _headers(), strict=True):
        link.symlink_to(source)
    yield
    for link in links:
        link.unlink()


def _headers() -> list[Path]:
    found = sorted(Path(os.environ["RIG_CACHE"], "root/usr/src").glob("linux-headers-*"))
    assert found
    return found
