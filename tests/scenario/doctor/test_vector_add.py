"""`laneway doctor node --vector-add`: a pod that uses a GPU as containers do."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from laneway.api import CoreNode, PCIDevice
from laneway.changes.errors import ChangeError
from laneway.changes.listening import Listener
from laneway.changes.vector_add import Wanted, run
from laneway.kube.errors import ApiError
from laneway.kube.pods import PODS
from laneway.kube.resource import served
from laneway.simcluster.objects import NODES
from support.commands import Laneway, ended, started
from support.worlds import NAMESPACE, World


async def pods(world: World) -> list[str]:
    pages = world.client.list(PODS, NAMESPACE)
    return [PODS.decode(one).metadata.name async for page in pages for one in page.items]


async def label(world: World, workload: str) -> None:
    body = {"metadata": {"labels": {"laneway.io/gpu-workload": workload}}}
    await world.client.patch(served(CoreNode), "node1", body)


async def allocatable(world: World, resource: str, count: str) -> None:
    await world.until(
        NODES, "node1", lambda node: str(node.status.allocatable.get(resource, "0")) == count
    )


@pytest.mark.parametrize(
    ("model", "resource"),
    [("mi210", "amd.com/gpu"), ("flex-170", "gpu.intel.com/i915")],
)
async def test_a_sample_runs_where_gpus_serve_containers(
    world: World, laneway: Laneway, model: str, resource: str
) -> None:
    await world.add("node1", model)
    none = await laneway("doctor", "node", "--vector-add", "--node", "node1", status=3)
    assert "no GPU of node node1 serves containers" in none.out.replace("\n ", "")

    await label(world, "containers")
    await allocatable(world, resource, "2")
    done = await laneway("doctor", "node", "--vector-add", "--node", "node1", "-n", NAMESPACE)
    text = " ".join(done.out.split())
    assert f"on node node1 with one {resource} ended well" in text
    assert await pods(world) == []

    await label(world, "virtual-machines")
    await allocatable(world, resource, "0")


async def test_only_what_serves_containers_is_given_to_them(world: World) -> None:
    await world.add("node1", "mi210")
    patch = {"spec": {"workload": "Containers"}}
    await world.client.patch(served(PCIDevice), "node1-000017000", patch)
    claim = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": "node1-000098000"},
        "spec": {"address": "0000:98:00.0", "nodeName": "node1", "userName": "admin"},
    }
    await world.client.call(
        "POST", "/apis/devices.harvesterhci.io/v1beta1/pcideviceclaims", None, claim
    )
    await allocatable(world, "amd.com/gpu", "1")


class Told(Listener):
    def __init__(self) -> None:
        self.words: list[str] = []
        self.waits = asyncio.Event()

    def progress(self, words: str) -> None:
        self.words.append(words)
        if "waits for a place" in words:
            self.waits.set()


async def test_a_sample_that_waits_says_why_and_leaves_nothing_behind(world: World) -> None:
    await world.add("node1", "mi210")
    await label(world, "containers")
    await allocatable(world, "amd.com/gpu", "2")
    busy: dict[str, Any] = {
        "metadata": {"name": "training"},
        "spec": {
            "containers": [
                {"name": "a", "image": "a", "resources": {"limits": {"amd.com/gpu": "2"}}}
            ]
        },
    }
    await world.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **busy}, NAMESPACE)
    await world.until(PODS, "training", lambda pod: pod.status.phase == "Running", NAMESPACE)
    told = Told()
    task = asyncio.create_task(run(world.client, Wanted("node1", NAMESPACE), told))
    await asyncio.wait_for(told.waits.wait(), 30)
    assert "Insufficient amd.com/gpu" in told.words[-1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await pods(world) == ["training"]

    late = await run(world.client, Wanted("node1", NAMESPACE, seconds=0.5))
    assert late.why.startswith("it was not over after")
    assert await pods(world) == ["training"]


@pytest.mark.parametrize("by_a_proxy", [False, True])
async def test_a_pod_whose_creation_was_not_answered_is_removed(
    world: World, by_a_proxy: bool
) -> None:
    await world.add("node1", "mi210")
    await label(world, "containers")
    await allocatable(world, "amd.com/gpu", "2")
    made, unanswered = asyncio.Event(), copy.copy(world.client)

    async def call(method: str, *rest: Any) -> bytes:
        answer = await world.client.call(method, *rest)
        if method == "POST":
            made.set()
            if by_a_proxy:
                raise ApiError(504, "", "upstream request timeout")
            await asyncio.Event().wait()
        return answer

    unanswered.call = call  # type: ignore[method-assign]
    task = asyncio.create_task(run(unanswered, Wanted("node1", NAMESPACE)))
    await asyncio.wait_for(made.wait(), 30)
    if not by_a_proxy:
        task.cancel()
    with pytest.raises(ApiError if by_a_proxy else asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        while await pods(world):  # noqa: ASYNC110 - its kubelet may have to end it first
            await asyncio.sleep(0.05)


async def test_a_signal_removes_the_pod(world: World, tmp_path: Any) -> None:
    await world.add("node1", "mi210")
    await label(world, "containers")
    await allocatable(world, "amd.com/gpu", "2")
    await world.stop_kubelet(world.nodes["node1"])
    arguments = ("doctor", "node", "--vector-add", "--node", "node1", "-n", NAMESPACE)
    process = await started(*arguments, kubeconfig=str(tmp_path / "kubeconfig"))
    async with asyncio.timeout(30):
        while not await pods(world):  # noqa: ASYNC110 - the name is not known before
            await asyncio.sleep(0.05)
    process.terminate()
    done = await ended(process)
    assert done.status != 0
    assert "is removed" in done.err
    await world.start_kubelet(world.nodes["node1"])
    async with asyncio.timeout(30):
        while await pods(world):  # noqa: ASYNC110 - its kubelet has to end it first
            await asyncio.sleep(0.05)


async def test_a_node_that_is_none(world: World) -> None:
    with pytest.raises(ChangeError, match="the cluster has no node nowhere"):
        await run(world.client, Wanted("nowhere", NAMESPACE))
