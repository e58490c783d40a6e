"""Sets of CAPK's machines with each part of Laneway under its own account, and under no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.clusterapi import MACHINE_DEPLOYMENTS
from laneway.kube.errors import ApiError
from laneway.simcluster.clusterapi.kubevirt.install import install
from support import capk
from support.accounts import MANAGER, WEBHOOK, Installed, ask, may, refusals, right, until
from support.accounts_webhook import asked, webhook
from support.capk import NAMESPACE, PREFIX
from support.worlds import World

SETS = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/machinedeployments"
READS = "list kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io"
CHANGES = "patch machinedeployments.cluster.x-k8s.io default/"
FORBIDDEN = (
    "create machinedeployments.cluster.x-k8s.io default/",
    "delete machinedeployments.cluster.x-k8s.io default/",
    "patch machinedeployments/scale.cluster.x-k8s.io default/",
    "patch machines.cluster.x-k8s.io default/",
    "patch kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io default/",
    "list kubevirtmachines.infrastructure.cluster.x-k8s.io default/",
    "get secrets default/elsewhere",
)


@pytest.fixture
async def accounts(chart: Installed) -> AsyncIterator[dict[str, Client]]:
    """The chart's objects and CAPK's kinds, and a client of each account, which has its rights."""
    await install(chart.client)
    await until(lambda: _served(chart))
    await chart.install({"manager": {"kubevirtMachines": {"capacity": True}}})
    async with await chart.acting(MANAGER) as manager, await chart.acting(WEBHOOK) as judging:
        await chart.granted(manager, right(CHANGES))
        await chart.granted(judging, right(READS))
        yield {MANAGER: manager, WEBHOOK: judging}


@pytest.fixture
def seen(
    chart: Installed, accounts: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Every 403 that an account was answered."""
    with refusals(monkeypatch, chart.names) as found:
        yield found


@pytest.fixture
async def world(
    cluster: Any, accounts: dict[str, Client], seen: list[str], tmp_path: Path
) -> AsyncIterator[World]:
    """A world whose manager is its account and keeps the certificate of the webhook."""
    world = World(cluster, tmp_path / "world")
    world.managers_client = accounts[MANAGER]
    world.certificates = world.machine_capacity = True
    try:
        await world.start()
        yield world
    finally:
        await world.stop()


@pytest.mark.realapi
@pytest.mark.slow
@pytest.mark.usefixtures("world")
async def test_sets_of_machines_are_judged_and_say_what_a_machine_has(
    chart: Installed, accounts: dict[str, Client], tmp_path: Path, seen: list[str]
) -> None:
    for account in accounts.values():
        for wrong in FORBIDDEN:
            assert not await may(account, right(wrong)), wrong
    assert not await may(accounts[WEBHOOK], right(CHANGES))
    async with webhook(chart, accounts[WEBHOOK], tmp_path / "tls"):
        await until(lambda: asked(chart))
        for one in (*capk.cluster(), capk.template("gpu", "nvidia.com/NVIDIA_A2-4Q")):
            await chart.apply(one)
        await chart.apply(capk.deployment("gpu", 0, "gpu"))
        found = await until(lambda: _capacity(chart))
        assert found == {
            "cpu": "2",
            "memory": "2Gi",
            "gpu-type": "nvidia.com/gpu",
            "gpu-count": "1",
        }
        body = {"spec": {"replicas": 1}}
        with pytest.raises(ApiError, match="no node has such a device"):
            await chart.client.patch(MACHINE_DEPLOYMENTS, "gpu", body, NAMESPACE)
        scale = await ask(chart.client, "GET", f"{SETS}/gpu/scale")
        with pytest.raises(ApiError, match="no node has such a device"):
            await ask(chart.client, "PUT", f"{SETS}/gpu/scale", scale | body)
    assert not seen


async def _served(chart: Installed) -> bool:
    """A server serves a kind a moment after its definition."""
    infrastructure = f"/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}"
    try:
        for path in (SETS, f"{infrastructure}/kubevirtmachinetemplates"):
            await ask(chart.client, "GET", path)
    except ApiError:
        return False
    return True


async def _capacity(chart: Installed) -> dict[str, str]:
    found = await chart.client.get(MACHINE_DEPLOYMENTS, "gpu", NAMESPACE)
    annotations = found.metadata.annotations
    return {
        key.removeprefix(PREFIX): one for key, one in annotations.items() if key.startswith(PREFIX)
    }
