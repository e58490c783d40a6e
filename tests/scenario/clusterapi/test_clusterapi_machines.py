"""Simulated Cluster API: machines come, join as nodes, and go in their order."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.clusterapi import (
    CLUSTERS,
    DEPLOYMENTS,
    MACHINES,
    NAMESPACE,
    SECRETS,
    TEMPLATES,
    VSPHERE_CLUSTERS,
    VSPHERE_MACHINES,
    VSPHERE_VMS,
    Plain,
    cluster,
    deployment,
    template,
    vsphere_cluster,
)

T4 = {"vendorId": 4318, "deviceId": 7864, "customLabel": "blue"}
GPU = "nvidia.com/gpu"


def reported(one: Plain, kind: str) -> dict[str, Any]:
    """A condition."""
    return next((c for c in one.status.get("conditions", ()) if c["type"] == kind), {})


def ready(one: Plain) -> bool:
    return reported(one, "Ready").get("status") == "True"


@pytest.mark.slow
async def test_a_cluster_waits_for_its_infrastructure(world: Any) -> None:
    await world.make(CLUSTERS, cluster())
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    waits = await world.clusters.first(lambda one: one.status.get("phase") == "Provisioning")
    assert "VSphereCluster c1" in reported(waits, "InfrastructureReady")["message"]

    await world.make(VSPHERE_CLUSTERS, vsphere_cluster())
    infra = await world.infra_clusters.first(lambda one: one.metadata.owner_references)
    assert infra.metadata.owner_references[0].name == "c1"
    machine = await world.machines.first(lambda one: one.status.get("phase") == "Pending")
    assert "bootstrapDataSecretCreated" not in machine.status.get("initialization", {})

    await world.provider.cluster()
    await world.clusters.first(lambda one: one.status.get("phase") == "Provisioned")
    await world.machines.first(lambda one: one.status.get("phase") == "Provisioning")


async def test_a_machine_has_all_that_a_provider_needs(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))

    [infra] = await world.machines_of(1)
    machine = await world.machines.first(
        lambda one: one.status.get("initialization", {}).get("bootstrapDataSecretCreated")
    )

    assert infra.spec["pciDevices"] == [T4]
    assert infra.spec["template"] == "ubuntu"
    assert infra.metadata.name == machine.spec["infrastructureRef"]["name"]
    assert infra.metadata.labels["cluster.x-k8s.io/cluster-name"] == "c1"
    assert infra.metadata.annotations["cluster.x-k8s.io/cloned-from-name"] == "t4"
    [owner] = infra.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Machine", machine.metadata.uid, True)
    secret = await world.client.get(SECRETS, machine.spec["bootstrap"]["dataSecretName"], NAMESPACE)
    assert base64.b64decode(secret.data["value"]).startswith(b"#cloud-config")
    assert base64.b64decode(secret.data["format"]) == b"cloud-config"


async def test_a_machine_that_is_on_becomes_a_node_with_its_gpus(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4, T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    [infra] = await world.machines_of(1)

    await world.provider.powered_on(infra, gpus=2)

    node = await world.nodes.first(lambda one: one.status.get("allocatable", {}).get(GPU) == "2")
    assert node.spec["providerID"] == f"vsphere://{infra.metadata.name}"
    assert node.status["capacity"]["cpu"] == "4"
    machine = await world.machines.first(ready)
    assert machine.status["phase"] == "Running"
    assert machine.status["nodeRef"] == {"name": node.metadata.name}
    assert machine.spec["providerID"] == node.spec["providerID"]
    assert machine.status["addresses"] == [{"type": "InternalIP", "address": "192.0.2.9"}]
    found = await world.deployments.first(lambda one: one.status.get("phase") == "Running")
    counts = [found.status[f"{kind}eplicas"] for kind in ("r", "readyR", "availableR", "upToDateR")]
    assert counts == [1, 1, 1, 1]

    await world.provider.lost(infra, "PCI device 10de:1eb8 is missing")
    machine = await world.machines.first(lambda one: not ready(one))
    assert "10de:1eb8 is missing" in reported(machine, "Ready")["message"]
    await world.nodes.first(lambda one: one.status["allocatable"][GPU] == "0")


async def test_the_kubeconfig_of_a_cluster_leads_to_its_nodes(world: Any) -> None:
    await world.a_cluster()
    await world.clusters.first(lambda one: one.status.get("phase") == "Provisioned")

    secret = await world.client.get(SECRETS, "c1-kubeconfig", NAMESPACE)

    written = await asyncio.to_thread(Path(world.kubeconfig).read_bytes)
    assert base64.b64decode(secret.data["value"]) == written


@pytest.mark.slow
async def test_a_machine_goes_after_its_infrastructure_and_its_node_with_it(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    [infra] = await world.machines_of(1)
    name = infra.metadata.name
    theirs = {"metadata": {"finalizers": ["vspheremachine.infrastructure.cluster.x-k8s.io"]}}
    await world.client.patch(VSPHERE_MACHINES, name, theirs, NAMESPACE)
    await world.provider.powered_on(infra, gpus=1)
    await world.machines.first(ready)

    await world.client.delete(DEPLOYMENTS, "gpu", NAMESPACE)
    await world.infra.first(lambda one: one.metadata.deletion_timestamp)
    machine = await world.machines.first(lambda one: one.status.get("phase") == "Deleting")
    assert machine.metadata.finalizers
    assert [one.metadata.name for one in world.nodes.all] == [name]

    await world.client.patch(VSPHERE_MACHINES, name, {"metadata": {"finalizers": None}}, NAMESPACE)
    for watched in (world.infra, world.nodes, world.machines, world.sets, world.deployments):
        await watched.until(lambda all_: not all_)


async def test_a_deleted_cluster_takes_everything_with_it(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4", 2))
    await world.machines_of(2)

    await world.client.delete(CLUSTERS, "c1", NAMESPACE)

    await world.clusters.until(lambda all_: not all_)
    for watched in (world.infra, world.machines, world.sets, world.deployments):
        await watched.until(lambda all_: not all_)
    await world.infra_clusters.until(lambda all_: not all_)


@pytest.mark.slow
async def test_a_template_that_is_not_there_is_reported_and_waited_for(world: Any) -> None:
    await world.a_cluster()
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    machine = await world.machines.first(
        lambda one: reported(one, "InfrastructureReady").get("message")
    )
    assert "VSphereMachineTemplate t4" in reported(machine, "InfrastructureReady")["message"]

    await world.make(TEMPLATES, template("t4", T4))
    await world.machines_of(1)


@pytest.mark.slow
async def test_kubectl_scales_and_shows(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    await world.machines_of(1)

    async def kubectl(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--kubeconfig={world.kubeconfig}",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    await kubectl("scale", "machinedeployment", "gpu", "--replicas=3")
    await world.machines_of(3)
    await world.deployments.first(lambda one: one.status.get("replicas") == 3)
    head, row = (await kubectl("get", "machinedeployment")).splitlines()
    shown = dict(zip(head.split(), row.split(), strict=False))
    assert (shown["NAME"], shown["CLUSTER"], shown["DESIRED"], shown["CURRENT"]) == (
        "gpu",
        "c1",
        "3",
        "3",
    )
    await kubectl("scale", "machinedeployment", "gpu", "--replicas=1")
    await world.machines_of(1)
    await world.machines.until(lambda all_: len(all_) == 1)  # it goes after its infrastructure
    shown = json.loads(await kubectl("get", "machine", "-o", "json"))
    assert [one["status"]["phase"] for one in shown["items"]] == ["Provisioning"]


@pytest.mark.slow
async def test_a_marked_machine_goes_first(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4", 3))
    machines = await world.machines.until(lambda all_: len(all_) == 3)
    marked = machines[1].metadata.name
    mark = {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}}}
    await world.client.patch(MACHINES, marked, mark, NAMESPACE)

    await world.client.patch(DEPLOYMENTS, "gpu", {"spec": {"replicas": 2}}, NAMESPACE)

    left = await world.machines.until(lambda all_: len(all_) == 2)
    assert marked not in [one.metadata.name for one in left]


@pytest.mark.slow
async def test_where_there_is_a_vm_its_devices_are_the_node_s(world: Any) -> None:
    """As a provider makes them: a VSphereVM for a VSphereMachine."""
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    [infra] = await world.machines_of(1)
    meta = infra.metadata
    owner = {
        "apiVersion": VSPHERE_MACHINES.api_version,
        "kind": "VSphereMachine",
        "name": meta.name,
        "uid": meta.uid,
    }
    body = {"metadata": {"name": "vm", "ownerReferences": [owner]}, "spec": infra.spec}
    await world.make(VSPHERE_VMS, body)
    await world.provider.powered_on(infra)
    status = {"pciDevices": [{"asked": "10de:1eb8", "state": "InUse"}]}
    await world.client.patch(VSPHERE_VMS, "vm", {"status": status}, NAMESPACE, subresource="status")

    await world.nodes.first(lambda one: one.status.get("allocatable", {}).get(GPU) == "1")
