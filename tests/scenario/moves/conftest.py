"""Two nodes with an A2 each, of which half is taken, and the webhook that reviews every write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.commands import Laneway, shell
from support.databases import with_kubevirt
from support.worlds import World, started


@pytest.fixture
def reviewed() -> bool:
    return True


@pytest.fixture(scope="session")
def installed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every test of the scenarios finds, and KubeVirt's kinds."""
    return with_kubevirt(installed, tmp_path_factory.mktemp("kubevirt"))


@pytest.fixture
async def world(cluster: Any, tmp_path: Path) -> AsyncIterator[World]:
    """Scheduler, KubeVirt and manager; `world.add` adds a node with its kubelet and agent."""
    async with started(cluster, tmp_path / "world") as world:
        yield world


@pytest.fixture
def laneway(cluster: Any, tmp_path: Path) -> Laneway:
    """Runs a command against the cluster."""
    return shell(str(tmp_path / "kubeconfig"))
