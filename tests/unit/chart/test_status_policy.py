"""A status of Laneway's kinds is written by programs with accounts of their own, by no person."""

from __future__ import annotations

from typing import Any

import pytest

from support.policies import Policy, policies


@pytest.fixture(scope="module")
def policy() -> Policy:
    [found] = [one for one in policies() if one.name == "laneway-status"]
    return found


def write(user: str, subresource: str = "status") -> Any:
    resource = {"group": "devices.harvesterhci.io", "version": "v1beta1", "resource": "vgpudevices"}
    vgpu = {"metadata": {"name": "node1-000008004"}, "status": {"vGPUStatus": "vGPUConfigured"}}
    return {
        "operation": "UPDATE",
        "name": "node1-000008004",
        "resource": resource,
        "subResource": subresource,
        "userInfo": {"username": user},
        "object": vgpu,
        "oldObject": vgpu,
    }


def test_a_cluster_takes_it(policy: Policy) -> None:
    policy.check()


def test_a_person_does_not_change_a_status(policy: Policy) -> None:
    request = write("alice")
    assert policy.concerns(request)
    assert "change spec instead" in policy.verdict(request)


def test_agents_do(policy: Policy) -> None:
    assert not policy.concerns(write("system:serviceaccount:harvester-system:laneway-agent"))
