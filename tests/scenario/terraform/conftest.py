"""Terraform on a cluster with simulated nodes; only in the tier of that name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.terraform import WANTED, Terraform
from support.worlds import World
from support.worlds import started as world_started

collect_ignore_glob = [] if WANTED else ["test_*.py"]


@pytest.fixture
async def world(cluster: Any, kubevirt_installed: Path, tmp_path: Path) -> AsyncIterator[World]:
    """Scheduler, KubeVirt and manager; `world.add` adds a node with kubelet and agent."""
    async with world_started(cluster, tmp_path / "world") as world:
        yield world


@pytest.fixture
def terraform(world: World, tmp_path: Path) -> Terraform:
    """Terraform, with the provider connected to the cluster."""
    return Terraform(tmp_path / "terraform", str(tmp_path / "kubeconfig"))
