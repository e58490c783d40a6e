"""A person at a shell, and a node with an A2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.commands import Laneway, register, shell


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    return (
        os.environ.get("KUBECONFIG", "")
        if "LANEWAY_REALAPI" in os.environ
        else str(tmp_path / "kubeconfig")
    )


@pytest.fixture
def laneway(cluster: Any, kubeconfig: str) -> Laneway:
    """Runs a command against the cluster."""
    return shell(kubeconfig)


@pytest.fixture
async def a2(cluster: Any, simulated: Any) -> Any:
    """A node with one A2, whose agent runs."""
    host = simulated("a2", "node1")
    await register(cluster, "node1")
    host.agent = await cluster.start_agent("node1", host)
    return host
