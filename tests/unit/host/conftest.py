"""Small hosts for the tests of the host layer: in memory, or as files below a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.sim import dump
from laneway.sim.host import SimulatedHost

MakeHost = Callable[..., SimulatedHost]


@pytest.fixture(scope="session")
def host_of() -> MakeHost:
    """A simulated host from the text of a dump (indented as the test likes) and other files."""

    def make(text: str, files: Mapping[str, str] | None = None) -> SimulatedHost:
        lines = "\n".join(line.strip() for line in text.strip().splitlines())
        content = {path: value.encode() for path, value in (files or {}).items()}
        return SimulatedHost("node", dump.parse(lines + "\n"), content)

    return make


@pytest.fixture(scope="session")
def address() -> Callable[[str], PciAddress]:
    """`03:00.0` in domain 0."""
    return lambda text: PciAddress.parse(f"0000:{text}")


@pytest.fixture
def files(tmp_path: Path) -> Callable[[Mapping[str, str]], str]:
    """Write files and links (`-> target`) below a directory; its path."""

    def write(content: Mapping[str, str]) -> str:
        for path, value in content.items():
            place = tmp_path / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if value.startswith("-> "):
                os.symlink(value[3:], place)
            else:
                place.write_text(value)
        return str(tmp_path)

    return write
