"""The manager alongside CAPV under its own account: it has the rights it needs, and no more."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from laneway.api import CoreNode, find_condition
from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation
from laneway.core.vsphere.inventory.vms import VgpuBacking
from laneway.kube import capv, clusterapi
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.leader import Timing
from laneway.kube.resource import Resource
from laneway.roles.install import install_crds
from laneway.roles.manager import NAMESPACE, Manager
from laneway.simcluster.clusterapi.install import install
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from laneway.vsphere.fleet.secrets import SECRETS
from laneway.vsphere.vcenter import connect
from support.accounts import MANAGER, Installed, may, refusals, right
from support.embedded import embedded

NAMESPACES = Resource("", "v1", "namespaces", False, CoreNode, "Namespace")
MODE = {"manager": {"vsphere": {"mode": "alongside", "secretNamespaces": ["default"]}}}
FORBIDDEN = (
    "list secrets",
    "watch secrets",
    "patch secrets default/main",
    "create vspherevms.infrastructure.cluster.x-k8s.io default/",
    "delete vspherevms.infrastructure.cluster.x-k8s.io default/one",
    "patch vspherevms.infrastructure.cluster.x-k8s.io default/one",
    "patch vspheremachines.infrastructure.cluster.x-k8s.io default/one",
    "patch vspheremachinetemplates.infrastructure.cluster.x-k8s.io default/one",
    "patch vcenters.devices.harvesterhci.io main",
    "delete vcenters.devices.harvesterhci.io main",
    "patch vspherehosts.devices.harvesterhci.io one",
    "patch machines.cluster.x-k8s.io default/one",
    "delete machines.cluster.x-k8s.io default/one",
)


@pytest.fixture
async def chart(tmp_path: Path) -> AsyncIterator[Installed]:
    async with embedded(tmp_path / "server") as kubeconfig:
        config = load(kubeconfig)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        async with Client(config) as client:
            await install_crds(client)
            await install(client)
            await install_kubevirt(client)
            yield Installed(client, config, port)


async def test_alongside_capv_the_manager_may_do_all_that_it_does_and_no_more(
    chart: Installed, vcenter: Any, site_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chart.install(MODE | {"webhook": {"vsphere": {"enabled": False}}})
    async with contextlib.AsyncExitStack() as stack:
        manager = await stack.enter_async_context(await chart.acting(MANAGER))
        await chart.granted(manager, right("get secrets default/main"))
        seen = stack.enter_context(refusals(monkeypatch, chart.names))
        site = site_of(chart.client, stack, connect)
        await site.vcenter(vcenter)
        await site.make(
            capv.VSPHERE_TEMPLATES,
            "pool",
            spec={"template": {"spec": {"template": "ubuntu", "network": {"devices": []}}}},
        )
        found = await site.lead(alongside=True, client=manager)
        await site.followed(found, vcenter)
        vm = await site.vm("one", vcenter, {"vGPUProfile": "grid_t4-8q"})
        await site.until(VSphereReservation, "one", lambda obj: bool(obj.spec.host))
        ref = await site.clone(found, vcenter, vm)
        await site.attach(found, vcenter, ref, VgpuBacking("grid_t4-8q"))
        await site.power_on(found, vcenter, ref)
        await site.until(
            VSphereReservation,
            "one",
            lambda obj: [one.state for one in obj.status.devices] == ["InUse"],
        )
        await site.until(VCenter, "main", lambda obj: obj.status.gpus > 0)
        await site.until(capv.VSPHERE_TEMPLATES, "pool", lambda obj: bool(obj.status.capacity))
        await site.until_all(VSphereHost, bool)
        connection = found.fleet.vcenter(vcenter.server)
        await connection.finished(await connection.power_off(ref))
        await connection.finished(await connection.destroy(ref))
        await site.client.delete(capv.VSPHERE_VMS, "one", "default")
        await site.until_gone(VSphereReservation, "one")
        await site.rest(found)
        assert not seen
        assert [text for text in FORBIDDEN if await may(manager, right(text))] == []


STANDALONE = {"manager": {"vsphere": {"mode": "standalone", "secretNamespaces": ["default"]}}}


async def test_in_capvs_place_the_manager_may_do_all_that_it_does_where_its_secrets_are(
    chart: Installed, vcenter: Any, site_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chart.install(STANDALONE | {"webhook": {"vsphere": {"enabled": False}}})
    async with contextlib.AsyncExitStack() as stack:
        account = await stack.enter_async_context(await chart.acting(MANAGER))
        await chart.granted(account, right("get secrets default/main"))
        seen = stack.enter_context(refusals(monkeypatch, chart.names))
        site = site_of(chart.client, stack, connect)
        with contextlib.suppress(AlreadyExistsError):
            await site.make(NAMESPACES, NAMESPACE, "")
        await site.vcenter(vcenter)
        await _machine(site, vcenter, "one")
        manager = Manager(
            account, CollectorRegistry(), timing=Timing(retry_seconds=0.05), vsphere="standalone"
        )
        running = asyncio.create_task(manager.run())
        stack.push_async_callback(asyncio.wait, [running])
        stack.callback(running.cancel)

        def ready(machine: Any) -> bool:
            found = find_condition(machine.status.conditions, "Ready")
            return found is not None and found.status == "True"

        await site.until(capv.VSPHERE_MACHINES, "one", ready)
        (kept,) = await site.all(VSphereReservation)
        assert [one.state for one in kept.status.devices] == ["InUse"]
        await site.client.delete(capv.VSPHERE_MACHINES, "one", "default")
        await site.until_gone(capv.VSPHERE_MACHINES, "one")
        assert await site.all(VSphereReservation) == []
        await site.client.delete(capv.VSPHERE_CLUSTERS, "gpus", "default")
        await site.until_gone(capv.VSPHERE_CLUSTERS, "gpus")
        assert not seen
        assert not await may(account, right("list secrets"))

        await site.make(NAMESPACES, "attic", "")
        await _machine(site, vcenter, "two", "attic")
        reported = await site.until(capv.VSPHERE_MACHINES, "two", _is_without_data, "attic")
        words = provisioned(reported).message
        assert "Secret two-data with the bootstrap data cannot be read" in words
        assert 'in the namespace "attic"' in words
        assert not [one for one in seen if "/attic/secrets/two-data" not in one]
        await site.client.delete(capv.VSPHERE_MACHINES, "two", "attic")
        await site.until_gone(capv.VSPHERE_MACHINES, "two", "attic")


def provisioned(machine: Any) -> Any:
    return find_condition(machine.status.conditions, "VirtualMachineProvisioned")


def _is_without_data(machine: Any) -> bool:
    found = provisioned(machine)
    return found is not None and found.reason == "BootstrapDataUnusable"


async def _machine(site: Any, simulator: Any, name: str, space: str = "default") -> None:
    """A Cluster `gpus` with one machine, as Cluster API makes them."""
    api = f"{clusterapi.GROUP}/{clusterapi.VERSION}"
    labels = {clusterapi.LABEL_CLUSTER: "gpus"}

    def owned(by: Any, kind: str) -> dict[str, Any]:
        meta = by.metadata
        owner = {"apiVersion": api, "kind": kind, "name": meta.name, "uid": meta.uid}
        return {"ownerReferences": [owner], "labels": labels}

    def reference(kind: str, to: str) -> dict[str, str]:
        return {"apiGroup": capv.GROUP, "kind": kind, "name": to}

    spec: dict[str, Any] = {"infrastructureRef": reference("VSphereCluster", "gpus")}
    cluster = await site.make(clusterapi.CLUSTERS, "gpus", space, spec=spec)
    provisioned = {"status": {"initialization": {"infrastructureProvisioned": True}}}
    await site.client.patch(clusterapi.CLUSTERS, "gpus", provisioned, space, subresource="status")
    await site.make(
        capv.VSPHERE_CLUSTERS,
        "gpus",
        space,
        metadata=owned(cluster, "Cluster"),
        spec={"server": simulator.server},
    )
    value = base64.b64encode(b"#cloud-config").decode()
    secret = {"metadata": {"name": f"{name}-data"}, "data": {"value": value}}
    await site.make(SECRETS, f"{name}-data", space, **secret)
    spec = {
        "clusterName": "gpus",
        "bootstrap": {"dataSecretName": f"{name}-data"},
        "infrastructureRef": reference("VSphereMachine", name),
    }
    machine = await site.make(
        clusterapi.MACHINES, name, space, metadata={"labels": labels}, spec=spec
    )
    spec = {
        "server": simulator.server,
        "template": "ubuntu",
        "datacenter": "DC0",
        "resourcePool": "DC0_C0/Resources",
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
        "pciDevices": [{"vGPUProfile": "grid_t4-8q"}],
    }
    await site.make(
        capv.VSPHERE_MACHINES, name, space, metadata=owned(machine, "Machine"), spec=spec
    )
