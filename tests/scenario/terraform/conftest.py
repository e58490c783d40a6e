"""Terraform on a cluster with simulated nodes; only in the tier of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.terraform import WANTED, Terraform
from support.worlds import World

collect_ignore_glob = [] if WANTED else ["test_*.py"]


@pytest.fixture
def terraform(world: World, tmp_path: Path) -> Terraform:
    """Terraform, with the provider connected to the cluster."""
    return Terraform(tmp_path / "terraform", str(tmp_path / "kubeconfig"))
