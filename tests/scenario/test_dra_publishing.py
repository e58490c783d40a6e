"""What a node offers appears in ResourceSlices, and goes from there, whatever the server lacks."""

from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from laneway.api import CoreNode
from laneway.controllers import dra
from laneway.controllers.dra import Slices
from laneway.core.device_plugin.offer import Owner
from laneway.core.inventory import Inventory
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.resource import Resource, served
from laneway.kube.slices import SLICES, ResourceSlice
from support.publishing import NODE, devices, offer, publishing, until

Start = Callable[..., AbstractAsyncContextManager[Slices]]


@pytest.fixture
def start(cluster: Any) -> Start:
    """Publish for a node until the end of the block."""
    return functools.partial(publishing, cluster)


@pytest.fixture(autouse=True)
def _served(cluster: Any) -> None:
    if cluster.server is None:
        pytest.skip("the real server of this tier is older than ResourceSlices")


async def test_devices_come_and_go_with_the_offers(cluster: Any, start: Start) -> None:
    await cluster.client.create(served(CoreNode), {"metadata": {"name": NODE}})
    async with start() as publisher:
        pair = [offer(0, 7), offer(1, 7)]
        publisher.offered(pair, Inventory(), {})
        found = await until(cluster, lambda found: len(devices(found)) == 2)
        counters = [it.spec["sharedCounters"] for it in found if "sharedCounters" in it.spec]
        assert counters == [[{"name": "group-7", "counters": {"exclusive": {"value": "1"}}}]]
        assert {it.spec["pool"]["resourceSliceCount"] for it in found} == {2}
        assert [it.metadata.owner_references[0].kind for it in found] == ["Node", "Node"]

        owners = {(pair[0].resource, pair[0].id): Owner(namespace="default", pod="vm-a")}
        publisher.offered([*pair, offer(2, 8)], Inventory(), owners)
        found = await until(cluster, lambda found: len(devices(found)) == 3)
        held = {name: one.get("taints") for name, one in devices(found).items()}
        assert held["pci-0000-08-02-0"] is None
        for name in ("pci-0000-08-00-0", "pci-0000-08-01-0"):
            assert held[name][0]["key"] == "devices.harvesterhci.io/held"
            assert held[name][0]["value"] == "vm-a"
        assert {it.spec["pool"]["generation"] for it in found} == {2}

        publisher.offered([offer(2, 8)], Inventory(), {})
        found = await until(cluster, lambda found: len(devices(found)) == 1)
        await until(cluster, lambda found: len(found) == 1)


async def test_a_deleted_slice_comes_back(cluster: Any, start: Start) -> None:
    async with start() as publisher:
        publisher.offered([offer(0, 7)], Inventory(), {})
        (first,) = await until(cluster, lambda found: len(found) == 1)
        await cluster.client.delete(SLICES, first.metadata.name)
        again = await until(
            cluster,
            lambda found: [it.metadata.uid for it in found] != [first.metadata.uid] and bool(found),
        )
        assert devices(again).keys() == devices([first]).keys()


async def test_a_node_that_does_not_publish_takes_away_its_own_alone(
    cluster: Any, start: Start
) -> None:
    async with start() as publisher:
        publisher.offered([offer(0, 7)], Inventory(), {})
        (found,) = await until(cluster, lambda found: len(found) == 1)
    others = []
    for name, change in (("other-node", {"nodeName": "node2"}), ("other", {"driver": "x.io"})):
        body = {"metadata": {"name": name}, "spec": {**found.spec, **change}}
        others.append((await cluster.client.create(SLICES, body)).metadata.name)
    async with start(publish=False) as publisher:
        publisher.offered([offer(0, 7)], Inventory(), {})
        left = await until(cluster, lambda found: len(found) == 2)
        assert sorted(it.metadata.name for it in left) == sorted(others)


async def test_a_server_without_the_api_is_reported_once(
    cluster: Any, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missing = Resource("resource.example.com", "v1", "resourceslices", False, ResourceSlice)
    monkeypatch.setattr(dra, "SLICES", missing)
    monkeypatch.setattr(dra, "MISSING_SECONDS", 0.001)
    asked = 0
    often = asyncio.Event()
    real = Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        nonlocal asked
        asked += 1
        if asked > 5:
            often.set()
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "call", call)
    async with start() as publisher:
        publisher.offered([offer(0, 7)], Inventory(), {})
        async with asyncio.timeout(60):
            await often.wait()
    reported = [one.message for one in caplog.records if one.name == dra.__name__]
    assert len(reported) == 1
    assert "does not serve resource.k8s.io/v1" in reported[0]


class Forgetful:
    """Requests reach a server that drops what is behind feature gates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.forgets = True
        real = Client.call

        async def call(client: Client, method: str, path: str, *args: Any) -> bytes:
            if self.forgets and len(args) > 1:
                params, body, *more = copy.deepcopy(args)
                args = params, forgotten(body), *more
            return await real(client, method, path, *args)

        monkeypatch.setattr(Client, "call", call)


def forgotten(body: Any) -> Any:
    spec = (body or {}).get("spec") or {}
    spec.pop("sharedCounters", None)
    for one in spec.get("devices") or ():
        one.pop("taints", None)
        one.pop("consumesCounters", None)
    return body


async def test_a_server_that_drops_counters_gets_nothing_that_needs_them(
    cluster: Any,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Forgetful(monkeypatch)
    offers = [offer(0, 7), offer(1, 7), offer(2, 8), offer(3, 9)]
    owners = {(offers[3].resource, offers[3].id): Owner(namespace="default", pod="vm-a")}
    async with start() as publisher:
        publisher.offered(offers, Inventory(), owners)
        found = await until(cluster, lambda found: len(found) == 1)
        assert sorted(devices(found)) == ["pci-0000-08-00-0", "pci-0000-08-02-0"]
        await publisher.queue.join()
        assert found[0].spec["pool"]["generation"] == 1, "the trial wrote nothing"
    assert [one.message for one in caplog.records if "DRAPartitionableDevices" in one.message]


async def test_a_server_that_begins_to_drop_taints_shows_nothing_in_use(
    cluster: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gates may be other ones after an upgrade, under an agent that runs on."""
    server = Forgetful(monkeypatch)
    server.forgets = False
    offers = [offer(0, 7), offer(1, 8), offer(2, 9)]
    holders = [Owner(namespace="default", pod=name) for name in ("vm-a", "vm-b")]
    owners = {(one.resource, one.id): owner for one, owner in zip(offers, holders, strict=False)}
    async with start() as publisher:
        publisher.offered(offers, Inventory(), dict(list(owners.items())[:1]))
        await until(cluster, lambda found: len(devices(found)) == 3)
        server.forgets = True
        publisher.offered(offers, Inventory(), owners)
        found = await until(cluster, lambda found: len(devices(found)) == 1)
        assert list(devices(found)) == ["pci-0000-08-02-0"]


async def test_an_agent_tells_of_a_vgpu_until_it_runs_without_the_flag(
    cluster: Any, simulated: Callable[[str, str], Any]
) -> None:
    host = simulated("a2", NODE)
    agent = await cluster.start_agent(NODE, host, dra=True)
    name, profile = f"{NODE}-000008004", "NVIDIA A2-4Q"
    await cluster.ask(name, profile)
    vgpu = await cluster.answer(name, "Configured")
    found = await until(cluster, lambda found: bool(devices(found)))
    (device,) = devices(found).values()
    said = {key: next(iter(value.values())) for key, value in device["attributes"].items()}
    assert said["mdevUUID"] == vgpu.status.uuid
    assert said["profile"] == profile
    assert said["object"] == name
    assert said["parentPCIAddress"] == "0000:08:00.0"
    assert device["capacity"]["memory"]["value"] == "4Gi"
    await cluster.disable(name)
    await until(cluster, lambda found: bool(found) and not devices(found))

    await cluster.stop_agent(agent)
    await cluster.start_agent(NODE, host)
    await until(cluster, lambda found: not found)


async def test_who_may_not_look_has_published_nothing(
    cluster: Any, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A role from before this feature says nothing of slices."""
    real = Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        if "resourceslices" in path:
            raise ForbiddenError(403, "Forbidden", "not for you")
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "call", call)
    async with start(publish=False) as publisher:
        async with asyncio.timeout(60):
            await publisher.run()
    assert not [one for one in caplog.records if one.name == dra.__name__]
