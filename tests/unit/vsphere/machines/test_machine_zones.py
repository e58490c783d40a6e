"""Clusters, their failure domains, and machines that name one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.api import ObjectMeta, find_condition
from laneway.kube import capv
from laneway.kube.resource import Resource
from support.memory_vcenter import MemoryVCenter


class Anything(msgspec.Struct):
    """An object with its status."""

    metadata: ObjectMeta = ObjectMeta()
    status: dict[str, Any] = {}


CLUSTERS = Resource(capv.GROUP, capv.VERSION, "vsphereclusters", True, Anything)
DEPLOYMENT_ZONES = Resource(capv.GROUP, capv.VERSION, "vspheredeploymentzones", False, Anything)
T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
CARD = {
    "id": "0000:3b:00.0",
    "vendorId": 0x10DE,
    "deviceId": 0x1EB8,
    "name": "Tesla T4",
    "fbGiB": 16,
    "mode": "passthrough",
}


@pytest.fixture
def vcenter(start_vcenter: Callable[..., MemoryVCenter]) -> MemoryVCenter:
    """Two clusters with a card each, and a third host group in the second of them."""
    groups = {"hostGroups": {"gpu-hosts": ["DC0_C1_H1"]}, "vmGroups": {"gpu-vms": []}}
    return start_vcenter(
        {"DC0_C0_H0": [CARD], "DC0_C1_H1": [CARD]}, clusters=2, settings={"DC0_C1": groups}
    )


async def zone(works: Any, vcenter: MemoryVCenter, name: str, **topology: Any) -> None:
    """A deployment zone with its failure domain."""
    part = {"name": name, "type": "ComputeCluster", "tagCategory": "laneway"}
    await works.make(
        capv.FAILURE_DOMAINS,
        name,
        {"region": part, "zone": part, "topology": {"datacenter": "DC0", **topology}},
    )
    await works.make(capv.DEPLOYMENT_ZONES, name, {"server": vcenter.server, "failureDomain": name})


async def test_a_cluster_tells_the_failure_domains_that_are_ready(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await zone(works, vcenter, "good", computeCluster="DC0_C1")
    await zone(works, vcenter, "bad", computeCluster="no-such-cluster")
    await works.cluster(vcenter, failureDomainSelector={})
    await works.lead()
    await works.until(DEPLOYMENT_ZONES, "good", lambda one: one.status.get("ready"))
    await works.until(DEPLOYMENT_ZONES, "bad", lambda one: "conditions" in one.status)
    await works.until(CLUSTERS, "gpus", lambda one: one.status.get("failureDomains"))
    status = (await works.raw(capv.VSPHERE_CLUSTERS, "gpus"))["status"]
    assert status["failureDomains"] == [{"name": "good", "controlPlane": True}]
    assert status["initialization"] == {"provisioned": True}
    assert status["vCenterVersion"]
    assert (await works.raw(capv.DEPLOYMENT_ZONES, "good"))["status"]["ready"]
    bad = (await works.raw(capv.DEPLOYMENT_ZONES, "bad"))["status"]
    assert not bad["ready"]
    words = next(one for one in bad["conditions"] if one["type"] == "FailureDomainValidated")
    assert "no-such-cluster" in words["message"]
    assert "DC0/DC0_C0" in words["message"]


async def test_a_machine_is_made_where_its_failure_domain_says(
    works: Any, vcenter: MemoryVCenter
) -> None:
    hosts = {"hostGroupName": "gpu-hosts", "vmGroupName": "gpu-vms"}
    await zone(works, vcenter, "good", computeCluster="DC0_C1", hosts=hosts)
    await works.cluster(vcenter, failureDomainSelector={})
    await works.machine("one", T4, zone="good", resourcePool=None, server="elsewhere.example.com")
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C1_H1"
    vm = await works.get(capv.VSPHERE_VMS, "one")
    assert vm.spec.server == vcenter.server
    # Cluster API shows it as the FAILURE DOMAIN of the Machine.
    await works.until(capv.VSPHERE_MACHINES, "one", lambda one: one.status.failure_domain == "good")
    began = [task["method"] for task in vcenter.tasks() if task["state"] == "success"]
    assert began.index("ReconfigureComputeResource_Task") < began.index("PowerOnVM_Task")


async def test_a_failure_domain_without_gpus_is_named(works: Any, vcenter: MemoryVCenter) -> None:
    await zone(works, vcenter, "plain", datacenter="DC0", computeCluster="DC0_H0")
    await works.cluster(vcenter, failureDomainSelector={})
    await works.machine("one", T4, zone="plain", resourcePool=None)
    await works.lead()
    vm = await works.until_says("one", "PCIDevicesReady", "DeviceNotOffered")
    words = find_condition(vm.status.conditions, "PCIDevicesReady").message
    assert "DC0_H0" in words
    assert "one" not in vcenter.vms()


async def test_a_machine_waits_for_the_failure_domain_that_it_names(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4, zone="later", resourcePool=None)
    await works.lead()
    await works.until(
        capv.VSPHERE_MACHINES,
        "one",
        lambda one: any(c.reason == "WaitingForFailureDomain" for c in one.status.conditions),
    )
    await zone(works, vcenter, "later", computeCluster="DC0_C0")
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C0_H0"


async def test_a_cluster_keeps_its_credentials_until_its_machines_are_gone(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    await works.client.delete(capv.VSPHERE_CLUSTERS, "gpus", "default")
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_CLUSTERS, "gpus")
    assert "one" not in vcenter.vms()
