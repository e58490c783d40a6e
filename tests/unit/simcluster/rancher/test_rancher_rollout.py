"""How many machines a pool is to have while Rancher replaces them."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import decode
from laneway.kube.kubevirt import VirtualMachine
from laneway.kube.rancher import MachinePool
from laneway.simcluster.rancher.controller import targets


@pytest.mark.parametrize(
    ("limits", "new", "old"),
    [
        ({}, 1, 2),
        ({"maxSurge": 1, "maxUnavailable": 1}, 1, 1),
        ({"maxSurge": 0, "maxUnavailable": 1}, 0, 1),
    ],
)
def test_an_old_machine_that_may_be_missing_does_not_wait_for_a_new_one(
    limits: dict[str, Any], new: int, old: int
) -> None:
    """Cluster API counts what is desired, whether or not the new VM is refused."""
    pool = decode(MachinePool, {"quantity": 2, "rollingUpdate": limits})
    machines = [decode(VirtualMachine, {"status": {"ready": True}})] * 2
    assert targets(pool, [], machines) == [([], new), (machines, old)]
