"""Another driver comes to one node after the other, and only where nothing needs the former one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.api import CoreNode, DeviceNode, VGPUDevice, timestamp
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.rollout.drivers import ANNOTATION, DAEMON_SET, OURS, Drivers
from laneway.core.rollout.drivers import SETTLE_SECONDS
from laneway.host.executors.pod import LABEL, NAMESPACE, VALUE
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.pods import DAEMON_SETS, PODS, DaemonSet, Pod, is_ready
from laneway.kube.resource import served
from support.caches import caught_up

SECONDS = 60.0
NODES = ("n1", "n2", "n3")
_CONTAINER = {"name": "nvidia-driver", "image": "toolkit"}


class Toolkit:
    """A DaemonSet with the least of its controller and of kubelets: one pod on each node.

    A pod that is deleted ends, another is made of the template, and that is ready at once, but on
    nodes of `broken`.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.broken: set[str] = set()
        self.most_away = 0
        """The most nodes that were seen without a ready pod at one time."""
        self._pods: Informer[Pod] = Informer(client, PODS, NAMESPACE)
        self._changed = asyncio.Event()
        self._made = 0

    async def make(self, version: str = "550", labels: Any = None) -> None:
        labels = OURS if labels is None else labels
        pods = {LABEL: VALUE, **labels}
        body = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": DAEMON_SET, "labels": labels},
            "spec": {
                "selector": {"matchLabels": pods},
                "updateStrategy": {"type": "OnDelete"},
                "template": {
                    "metadata": {"labels": pods, "annotations": {ANNOTATION: version}},
                    "spec": {"containers": [_CONTAINER]},
                },
            },
        }
        await self.client.create(DAEMON_SETS, body, NAMESPACE)
        await self._count()

    async def ask_for(self, version: str) -> None:
        """Another driver, as an upgrade of the chart asks for it."""
        template = {"metadata": {"annotations": {ANNOTATION: version}}}
        body = {"spec": {"template": template}}
        await self.client.patch(DAEMON_SETS, DAEMON_SET, body, NAMESPACE)
        await self._count()

    async def _count(self) -> None:
        found = await self.client.get(DAEMON_SETS, DAEMON_SET, NAMESPACE)
        body = {
            "status": {
                "observedGeneration": found.metadata.generation,
                "desiredNumberScheduled": len(NODES),
                "currentNumberScheduled": len(NODES),
                "numberMisscheduled": 0,
                "numberReady": len(NODES),
            }
        }
        await self.client.patch(DAEMON_SETS, DAEMON_SET, body, NAMESPACE, subresource="status")

    async def run(self) -> None:
        self._pods.subscribe(lambda _before, _after: self._changed.set())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            await self._pods.synced.wait()
            while True:
                await self._once()
                await self._changed.wait()
                self._changed.clear()

    async def _once(self) -> None:
        pods = list(self._pods.store)
        for pod in pods:
            if pod.metadata.deletion_timestamp:
                with contextlib.suppress(NotFoundError):
                    name = pod.metadata.name
                    await self.client.delete(PODS, name, NAMESPACE, grace_seconds=0)
        with_pods = {pod.spec.node_name for pod in pods}
        for node in NODES:
            if node not in with_pods:
                await self._begin(node)
        ready = {pod.spec.node_name for pod in pods if is_ready(pod)}
        self.most_away = max(self.most_away, len(set(NODES) - ready) if self._made > 3 else 0)

    async def _begin(self, node: str) -> None:
        found = await self.client.get(DAEMON_SETS, DAEMON_SET, NAMESPACE)
        meta = found.spec.template.metadata
        self._made += 1
        name = f"driver-{node}-{self._made}"
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": DAEMON_SET,
            "uid": found.metadata.uid,
            "controller": True,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": dict(meta.labels),
                "annotations": dict(meta.annotations),
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": node, "containers": [_CONTAINER]},
        }
        await self.client.create(PODS, body, NAMESPACE)
        ready = {
            "type": "Ready",
            "status": "False" if node in self.broken else "True",
            "lastTransitionTime": timestamp(datetime.now(UTC)),
        }
        body = {"status": {"phase": "Running", "conditions": [ready]}}
        await self.client.patch(PODS, name, body, NAMESPACE, subresource="status")

    @property
    def made_for(self) -> set[str]:
        """What pods were made for, ready or not."""
        return {pod.metadata.annotations[ANNOTATION] for pod in self._pods.store}

    def versions(self) -> dict[str, str]:
        """What the ready pods of nodes were made for."""
        return {
            pod.spec.node_name: pod.metadata.annotations[ANNOTATION]
            for pod in self._pods.store
            if is_ready(pod)
        }

    async def until(self, holds: Callable[[dict[str, str]], bool]) -> None:
        """Wait until the versions on the nodes are as expected."""
        async with asyncio.timeout(SECONDS):
            while not holds(self.versions()):  # noqa: ASYNC110 - the store announces too early
                await asyncio.sleep(0.01)


class Site(Toolkit):
    """The same with a manager's part at work, for which time is ahead: pods are old at once."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        registry = CollectorRegistry()
        self.caches = Caches.of(client)
        self.recorder = EventRecorder(client, "laneway-manager")
        self.drivers = Drivers(
            client,
            NAMESPACE,
            self.caches,
            ManagerMetrics(registry),
            self.recorder,
            clock=lambda: time.time() + 2 * SETTLE_SECONDS,
        )

    async def events(self, reason: str) -> list[tuple[str, str, str]]:
        """What events of a reason are about, with their types and messages."""
        return sorted(
            (one["involvedObject"]["name"], one["type"], one["message"])
            for one in await self._events(reason)
        )

    async def times(self, reason: str) -> int:
        """How often events of a reason were told."""
        return sum(one.get("count", 1) for one in await self._events(reason))

    async def _events(self, reason: str) -> list[Any]:
        await self.recorder.flush()
        items = msgspec.json.decode(await self.client.raw("/api/v1/events"))["items"]
        return [one for one in items if one["reason"] == reason]


@pytest.fixture
async def site(world: Any) -> AsyncIterator[Site]:
    """Three nodes with driver 550; `world` has KubeVirt's kinds."""
    site = Site(world.client)
    for name in NODES:
        await world.make(CoreNode, name)
    await site.make()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in site.caches.all.values()]
        running += [tasks.create_task(site.run()), tasks.create_task(site.recorder.run())]
        await site.until(lambda versions: versions == dict.fromkeys(NODES, "550"))
        running.append(tasks.create_task(site.drivers.run()))
        yield site
        for one in running:
            one.cancel()


async def test_one_node_follows_the_other(site: Site) -> None:
    await site.ask_for("570")

    await site.until(lambda versions: versions == dict.fromkeys(NODES, "570"))
    assert site.most_away == 1
    assert [name for name, *_ in await site.events("DriverUpgrade")] == [
        "n1",
        "n2",
        "n3",
        *[DAEMON_SET] * 3,
    ]


async def test_a_node_with_a_vgpu_is_the_last(site: Site, world: Any) -> None:
    await world.vgpu("n1-000041004")
    await caught_up(site.client, [site.caches.vgpus])
    await site.ask_for("570")

    await site.until(lambda versions: versions == {"n1": "550", "n2": "570", "n3": "570"})
    [(name, kind, text), *_] = await site.events("DriverUpgradeWaits")
    assert (name, kind) == (DAEMON_SET, "Normal")
    assert "n1 (vGPU n1-000041004 is configured)" in text

    await world.client.delete(served(VGPUDevice), "n1-000041004")
    await site.until(lambda versions: versions.get("n1") == "570")

    # The next upgrade tells it again.
    assert await site.times("DriverUpgradeWaits") == 1
    await world.vgpu("n1-000041004")
    await caught_up(site.client, [site.caches.vgpus])
    await site.ask_for("580")
    await site.until(lambda versions: versions == {"n1": "570", "n2": "580", "n3": "580"})
    assert await site.times("DriverUpgradeWaits") == 2


async def test_a_node_that_went_back_stops_the_others(site: Site, world: Any) -> None:
    said = {
        "type": "Driver",
        "status": "False",
        "reason": "BuildFailed",
        "message": "Driver 570 is not in service: error. Driver 550 serves meanwhile.",
    }
    await world.make(DeviceNode, "n1", status={"conditions": [said]})
    await caught_up(site.client, [site.caches.device_nodes])
    await site.ask_for("570")

    await site.until(lambda versions: versions.get("n1") == "570")
    async with asyncio.timeout(SECONDS):
        while not (told := await site.events("DriverUpgradeStopped")):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.05)
    assert [(name, kind) for name, kind, _ in told] == [("n1", "Warning"), (DAEMON_SET, "Warning")]
    assert all("Node n1: BuildFailed: Driver 570" in text for *_, text in told)
    assert site.versions() == {"n1": "570", "n2": "550", "n3": "550"}

    await world.tell(DeviceNode, "n1", conditions=[said | {"status": "True"}])
    await site.until(lambda versions: versions == dict.fromkeys(NODES, "570"))


async def test_a_pod_that_does_not_become_ready_holds_up_the_others(site: Site) -> None:
    site.broken = {"n1"}
    await site.ask_for("570")

    async with asyncio.timeout(SECONDS):
        while "570" not in site.made_for:  # noqa: ASYNC110 - the store announces too early
            await asyncio.sleep(0.01)
    site.drivers.ask(site.drivers.everything())
    await site.drivers.queue.join()
    assert site.versions() == {"n2": "550", "n3": "550"}


async def test_pods_of_another_toolkit_are_left_alone(site: Site) -> None:
    labels = dict.fromkeys(OURS)  # as of the DaemonSet of Harvester's add-on
    await site.client.patch(DAEMON_SETS, DAEMON_SET, {"metadata": {"labels": labels}}, NAMESPACE)
    await site.ask_for("570")

    async with asyncio.timeout(SECONDS):
        while not _is_counted(site.drivers.daemon_set, "570"):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.01)
    site.drivers.ask(site.drivers.everything())
    await site.drivers.queue.join()
    assert site.versions() == dict.fromkeys(NODES, "550")


def _is_counted(found: DaemonSet | None, version: str) -> bool:
    """Whether a version is asked for, and the DaemonSet's controller has seen it."""
    return (
        found is not None
        and found.spec.template.metadata.annotations[ANNOTATION] == version
        and found.status.observed_generation == found.metadata.generation
    )
