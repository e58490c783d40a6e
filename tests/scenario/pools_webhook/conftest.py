"""A management cluster, a Harvester cluster, and the line between them."""

from __future__ import annotations

import contextlib
import os
from collections import ChainMap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from laneway.admission.machine_pools import harvesters
from laneway.controllers.machine_pools import following
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.rancher import CONFIGS, GUEST_CLUSTERS
from laneway.roles.install import install_crds
from laneway.simcluster.clusterapi.install import install as install_machines
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from laneway.simcluster.rancher.install import install as install_rancher
from support.accounts import NAMESPACE as OWN_NAMESPACE
from support.accounts import REAL, Installed, ask, refusals, right
from support.control_plane import until_served
from support.embedded import embedded
from support.fault_proxy import FaultProxy
from support.pool_guard import NAMESPACE, WEBHOOK, Guard, read_through

WEBHOOK_VALUES = {"devices": {"enabled": False}, "machinePools": {"webhook": {"enabled": True}}}
READER_VALUES = {"devices": {"enabled": False}, "machinePools": {"reader": {"enabled": True}}}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook that looks often, so that no test waits for it."""
    monkeypatch.setattr(harvesters, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(following, "ASK_SECONDS", 0.2)


@pytest.fixture
async def guard(clusters: Guard, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guard]:
    """Both clusters. Neither account is refused anything in a test."""
    names = ChainMap(clusters.management.names, clusters.reader.names)
    with refusals(monkeypatch, names) as seen:
        yield clusters
    assert not seen


@pytest.fixture
async def clusters(
    tmp_path: Path, free_port: Callable[[], int], impatient: None
) -> AsyncIterator[Guard]:
    """Both clusters; in the realapi tier, the management cluster is a real API server."""
    async with embedded(tmp_path / "harvester") as harvesters_path:
        config = load(harvesters_path)
        async with Client(config) as harvester:
            await install_kubevirt(harvester)
            await install_crds(harvester)
            reader = Installed(harvester, config, 0)
            await reader.install(READER_VALUES)
            through = await read_through(reader, config)
            async with (
                Client(through) as asking,
                FaultProxy(through).running() as line,
                _management(tmp_path, free_port()) as management,
            ):
                await reader.granted(asking, right("list nodes"))
                yield Guard(management, reader, line)


@contextlib.asynccontextmanager
async def _management(folder: Path, port: int) -> AsyncIterator[Installed]:
    async with contextlib.AsyncExitStack() as stack:
        if REAL:
            path = os.environ["KUBECONFIG"]
        else:
            path = await stack.enter_async_context(embedded(folder / "management"))
        config = load(path)
        client = await stack.enter_async_context(Client(config))
        await install_rancher(client)
        await install_machines(client)
        for name in (NAMESPACE, OWN_NAMESPACE):
            with contextlib.suppress(AlreadyExistsError):
                await ask(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for kind in (GUEST_CLUSTERS, *CONFIGS.values()):
            await until_served(client, kind.path())
        installed = Installed(client, config, port)
        stack.push_async_callback(_cleaned, installed)
        await installed.install(WEBHOOK_VALUES)
        async with await installed.acting(WEBHOOK) as acting:
            await installed.granted(acting, right("list machines.cluster.x-k8s.io"))
        yield installed


async def _cleaned(installed: Installed) -> None:
    await installed.uninstall()
    for kind in (GUEST_CLUSTERS, *CONFIGS.values()):
        await installed.client.call("DELETE", kind.path(NAMESPACE))
