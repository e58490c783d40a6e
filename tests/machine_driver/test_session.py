"""The session with the machine driver in docs/tutorials/, typed again as it stands there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machine_driver import ROOT, Programs
from support.sessions import DOCS, Terminal, goes, sections

TITLES = ("Two servers with three vGPUs", "The same by Laneway's machine driver")


@pytest.fixture
def terminal(tmp_path: Path, programs: Programs) -> Iterator[Terminal]:
    """In a folder that has the tools of a checkout.

    Its programs are built with the cache of `programs`, so what is typed has little to compile.
    """
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    one = Terminal(tmp_path)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    one.environment["XDG_CACHE_HOME"] = cache
    yield one
    one.stop()


@pytest.mark.timeout(300)  # Builds the driver ten times, from Go's cache.
def test_machines_are_created_refused_replaced_and_removed(terminal: Terminal) -> None:
    goes(list(sections((DOCS / "guest-clusters.md").read_text(), *TITLES)), terminal)
