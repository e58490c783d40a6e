"""What tests of several layers share."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.sim.host import SimulatedHost

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def a2_dump_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of a real server with an A2: 16 VFs, three configured vGPUs; unpacked."""
    path = tmp_path_factory.mktemp("dump") / "a2-vgpu-node.umockdev"
    path.write_bytes(lzma.decompress((DATA / "a2-vgpu-node.umockdev.xz").read_bytes()))
    return path


@pytest.fixture(scope="session")
def host_files() -> Callable[[SimulatedHost], dict[str, str | bytes]]:
    """Reads all of a host: contents and errors of files, targets of links, by path."""

    def walk(host: SimulatedHost, path: str, found: dict[str, str | bytes]) -> None:
        for name in host.names(path or "/"):
            inner = f"{path}/{name}"
            try:
                found[inner] = "-> " + host.readlink(inner)
                continue
            except OSError:
                pass
            try:
                found[inner] = host.read(inner)
            except IsADirectoryError:
                found[inner] = "directory"
                walk(host, inner, found)
            except OSError as error:
                found[inner] = f"error {error.errno}"

    def snapshot(host: SimulatedHost) -> dict[str, str | bytes]:
        found: dict[str, str | bytes] = {}
        walk(host, "", found)
        return found

    return snapshot
