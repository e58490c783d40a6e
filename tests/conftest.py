"""What tests of several layers share."""

from __future__ import annotations

import gc
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from laneway.sim.host import SimulatedHost
from support.examples import THOROUGH, many

DATA = Path(__file__).parent / "data"

# No test fails because the machine was busy, and `make test` tries the same examples each time: new
# ones are for whoever runs `make test-laws`, and never for CI, where a change is judged by itself.
settings.register_profile(
    "laneway",
    max_examples=many(100),
    derandomize=not THOROUGH or os.environ.get("CI") == "true",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("laneway")

# Of the system's authorities OpenSSL looks up in a folder what it needs, but of this file it reads
# all, each time that a client is made: longer than many a test takes. Ours trust their own.
os.environ["SSL_CERT_FILE"] = os.devnull

# Ten thousand collected tests are a million objects that stay. A collector that looks through them
# all, again and again, takes longer than most tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


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
