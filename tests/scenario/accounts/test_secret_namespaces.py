"""A manager that may read Secrets in some namespaces alone: of what is elsewhere it says so."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from laneway.api import CoreNode, find_condition
from laneway.api.vsphere import VCenter
from laneway.kube import capv
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds
from laneway.roles.vsphere import Vsphere
from laneway.simcluster.clusterapi.install import install as install_clusterapi
from laneway.vsphere.fleet.connection import Timing
from laneway.vsphere.fleet.secrets import SECRETS
from support.accounts import MANAGER, Installed, may, refusals, rendered, right, until

NAMESPACES = Resource("", "v1", "namespaces", False, CoreNode, "Namespace")
QUICK = Timing(first=0.05, longest=0.2, secret=0.2)


def values(*namespaces: str) -> dict[str, Any]:
    vsphere = {"mode": "alongside", "checkNodes": True, "secretNamespaces": list(namespaces)}
    return {"manager": {"vsphere": vsphere}, "webhook": {"vsphere": {"enabled": False}}}


@contextlib.asynccontextmanager
async def leading(client: Client) -> AsyncIterator[None]:
    """The parts of a manager for vSphere that leads."""
    recorder = EventRecorder(client, "laneway-manager")
    found = Vsphere(client, CollectorRegistry(), recorder, check_nodes=True, timing=QUICK)
    works = [one.run() for one in (*found.caches.all.values(), recorder, *found.parts)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(work) for work in works]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


async def made(client: Client, resource: Resource[Any], body: Any, namespace: str = "") -> Any:
    kind = resource.kind or resource.type.__name__
    head = {"apiVersion": resource.api_version, "kind": kind}
    return await client.create(resource, head | body, namespace)


@pytest.fixture
async def spaces(chart: Installed) -> AsyncIterator[tuple[str, str]]:
    """A namespace that is named to the chart, and one that is not, each with a Secret `lab`."""
    mark = uuid.uuid4().hex[:8]
    names = f"vault-{mark}", f"attic-{mark}"
    word = base64.b64encode(b"s3cr3t").decode()
    for name in names:
        await made(chart.client, NAMESPACES, {"metadata": {"name": name}})
        body = {"metadata": {"name": "lab"}, "data": {"username": word, "password": word}}
        await made(chart.client, SECRETS, body, name)
    yield names
    for name in names:
        await chart.client.delete(NAMESPACES, name)


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_vcenter_whose_secret_is_elsewhere_says_so_and_others_are_asked(
    chart: Installed, spaces: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, attic = spaces
    await install_crds(chart.client)
    await chart.install(values(vault))
    async with await chart.acting(MANAGER) as account:
        await chart.granted(account, right(f"get secrets {vault}/lab"))
        for wrong in (f"get secrets {attic}/lab", "get secrets", f"list secrets {vault}/"):
            assert not await may(account, right(wrong))
        with refusals(monkeypatch, chart.names) as seen:
            for name, space in (("inside", vault), ("outside", attic)):
                ref = {"namespace": space, "name": "lab"}
                # No server listens there, so one whose Secret was read cannot be reached.
                spec = {"server": f"127.0.0.1:{1 + (name == 'inside')}", "secretRef": ref}
                body = {"metadata": {"name": name}, "spec": spec}
                await made(chart.client, served(VCenter), body)
            async with leading(account):
                assert "127.0.0.1" in await _words(chart, "inside", "Unreachable")
                reported = await _words(chart, "outside", "NoCredentials")
                assert f"Secret {attic}/lab cannot be read" in reported
                assert "forbidden" in reported
                assert "s3cr3t" not in reported
                assert {one for one in seen if f"/{attic}/secrets/lab" not in one} == set()

                for obj in rendered(values(vault, attic)):
                    if obj["metadata"].get("namespace") == attic:
                        await chart.apply(obj)
                await _words(chart, "outside", "Unreachable")


async def _words(chart: Installed, vcenter: str, reason: str) -> str:
    async def reported() -> str:
        found = await chart.client.get(served(VCenter), vcenter)
        ready = find_condition(found.status.conditions, "Ready")
        return ready.message if ready is not None and ready.reason == reason else ""

    return str(await until(reported))


@pytest.mark.slow
async def test_a_workload_cluster_whose_kubeconfig_is_elsewhere_is_said_not_to_be_looked_into(
    chart: Installed, spaces: tuple[str, str]
) -> None:
    vault, attic = spaces
    await install_crds(chart.client)
    await install_clusterapi(chart.client)
    await chart.install(values(vault))
    meta = {"name": "one", "labels": {LABEL_CLUSTER: "lab"}}
    spec = {
        "network": {"devices": []},
        "template": "ubuntu",
        "pciDevices": [{"vGPUProfile": "grid_t4-8q"}],
    }
    at = "2026-11-22T00:00:00Z"
    ready = {"type": "PCIDevicesReady", "status": "True", "reason": "a", "lastTransitionTime": at}
    status = {"initialization": {"provisioned": True}, "conditions": [{**ready, "message": ""}]}
    machines = capv.VSPHERE_MACHINES
    await made(chart.client, machines, {"metadata": meta, "spec": spec}, attic)
    await chart.client.patch(machines, "one", {"status": status}, attic, subresource="status")

    async def reported() -> str:
        found = await chart.client.get(machines, "one", attic)
        said = find_condition(found.status.conditions, "GPUNodeReady")
        return said.message if said is not None and said.reason == "KubeconfigForbidden" else ""

    async with await chart.acting(MANAGER) as account:
        await chart.granted(account, right(f"get secrets {vault}/lab"))
        async with leading(account):
            assert f"Secret {attic}/lab-kubeconfig cannot be read" in await until(reported)
