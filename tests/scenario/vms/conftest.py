"""Virtual VMs on simulated nodes: `world` is everything but the nodes, which tests add."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.databases import with_kubevirt
from support.worlds import World, started


@pytest.fixture(scope="session")
def installed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every test of the scenarios finds, and KubeVirt's kinds."""
    return with_kubevirt(installed, tmp_path_factory.mktemp("kubevirt"))


@pytest.fixture
async def world(cluster: Any, tmp_path: Path) -> AsyncIterator[World]:
    """Scheduler, KubeVirt and manager; `world.add` adds a node with its kubelet and agent."""
    async with started(cluster, tmp_path / "world") as world:
        yield world
