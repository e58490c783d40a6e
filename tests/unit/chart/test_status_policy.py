"""What only programs with accounts of their own write: a status, and where a roll-out stands."""

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


@pytest.fixture(scope="module")
def preparations() -> Policy:
    [found] = [one for one in policies() if one.name == "laneway-preparations"]
    return found


def preparation(user: str, stage: str = "", **annotations: str) -> Any:
    resource = {"group": "devices.harvesterhci.io", "version": "v1beta1"}
    before = {"metadata": {"name": "node1"}, "spec": {"iommu": True}}
    after = {
        "metadata": {"name": "node1", "annotations": annotations},
        "spec": {"iommu": True, **({"rollout": {"stage": stage}} if stage else {})},
    }
    return {
        "operation": "UPDATE",
        "name": "node1",
        "resource": {**resource, "resource": "hostpreparations"},
        "userInfo": {"username": user},
        "object": after,
        "oldObject": before,
    }


def test_a_person_allows_a_reboot_and_orders_none(preparations: Policy) -> None:
    preparations.check()

    assert preparations.verdict(preparation("alice", reboot="b1")) == ""
    assert "change these instead" in preparations.verdict(preparation("alice", "Rebooting"))


def test_no_agent_orders_its_own_reboot(preparations: Policy) -> None:
    agent = "system:serviceaccount:harvester-system:laneway-agent"
    manager = "system:serviceaccount:harvester-system:laneway-manager"

    assert preparations.verdict(preparation(agent, "Rebooting")) != ""
    assert not preparations.concerns(preparation(manager, "Rebooting"))
