"""A whole site: API server, simulated Cluster API, managers as people run them, simulated vCenters.

Tests do what people do (objects of Cluster API), see what people see, and ask the simulated vCenter
for the truth. Those marked `realapi` run on a real API server too, in the tier of that name: all
objects of Cluster API, of CAPV and of Laneway's for vSphere on it are theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.leader import LEASES
from laneway.kube.resource import Resource
from laneway.roles.install import install_crds
from laneway.roles.manager import LEASE
from laneway.simcluster.clusterapi.controller import ClusterApi
from laneway.simcluster.clusterapi.install import install
from support.api_server import contents, running
from support.clusterapi import (
    Plain,
)
from support.vcenter import Simulator
from support.vsphere_world import ALL, NAMESPACE, NODES, SECONDS, See, World

REAL = bool(os.environ.get("LANEWAY_REALAPI"))


@pytest.fixture
def see() -> type[See]:
    return See


@pytest.fixture(scope="session")
def kinds() -> bytes:
    """What a server with all kinds holds; nothing where it is a real one, which has them then."""

    async def fill(client: Client) -> None:
        await install_crds(client)
        await install(client)
        for resource in ALL:
            await _until_served(client, resource)

    async def fill_given() -> None:
        async with Client(load(os.environ["KUBECONFIG"])) as client:
            await fill(client)

    if not REAL:
        return contents(fill)
    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, fill_given()).result()
    return b""


async def _until_served(client: Client, resource: Resource[Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(NotFoundError):
                await client.raw(resource.path(), {"limit": "1"})
                return
            await asyncio.sleep(0.1)  # nothing announces it


@contextlib.asynccontextmanager
async def _given() -> AsyncIterator[str]:
    kubeconfig = os.environ["KUBECONFIG"]
    async with Client(load(kubeconfig)) as client:
        nodes = await _names(client, NODES)
        await _clear(client, set())
        try:
            yield kubeconfig
        finally:
            await _clear(client, await _names(client, NODES) - nodes)


async def _names(client: Client, resource: Resource[Any]) -> set[str]:
    pages = [page async for page in client.list(resource)]
    return {resource.decode(raw).metadata.name for page in pages for raw in page.items}


async def _clear(client: Client, nodes: set[str]) -> None:
    """Whatever a story left, whatever holds it."""
    for resource in ALL:
        space = NAMESPACE if resource.namespaced else ""
        for name in await _names(client, resource):
            with contextlib.suppress(NotFoundError):
                await client.delete(resource, name, space)
            with contextlib.suppress(NotFoundError):
                await client.patch(resource, name, {"metadata": {"finalizers": None}}, space)
    for name in nodes:
        with contextlib.suppress(NotFoundError):
            await client.delete(NODES, name)
    with contextlib.suppress(NotFoundError):
        await client.delete(LEASES, LEASE, NAMESPACE)


@pytest.fixture(params=["real" if REAL else "embedded"])
async def world(kinds: bytes, tmp_path: Path) -> AsyncIterator[World]:
    async with (
        _given() if REAL else running(tmp_path, kinds) as kubeconfig,
        contextlib.AsyncExitStack() as stack,
    ):
        config = load(kubeconfig)
        client = await stack.enter_async_context(Client(config))
        acting = await stack.enter_async_context(Client(config))
        with contextlib.suppress(AlreadyExistsError):  # the embedded server has it
            await client.create(
                Resource("", "v1", "namespaces", False, Plain, "Namespace"),
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            )
        found = World(client, config, kubeconfig, stack)
        content = await asyncio.to_thread(Path(kubeconfig).read_bytes)
        tasks = [
            asyncio.create_task(one)
            for one in (
                ClusterApi(acting, lambda: content).run(),
                *(watched.informer.run() for watched in found.watched),
            )
        ]
        stack.push_async_callback(_end, tasks)
        for watched in found.watched:
            await watched.informer.synced.wait()
        yield found


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error


@pytest.fixture
def t4s(start_vcenter: Callable[..., Simulator]) -> Callable[..., Simulator]:
    """A simulator with T4s for whole machines: labels of each host's, an empty one for none."""

    def start(hosts: Mapping[str, list[str]], **more: Any) -> Simulator:
        return start_vcenter(
            {
                host: [card(f"0000:{3 + at:02x}:00.0", label) for at, label in enumerate(labels)]
                for host, labels in hosts.items()
            },
            **more,
        )

    return start


def card(address: str, label: str = "") -> dict[str, Any]:
    about = {"id": address, "name": "Tesla T4", "fbGiB": 16, "mode": "passthrough", "label": label}
    return about | {"vendorId": 0x10DE, "deviceId": 0x1EB8}
