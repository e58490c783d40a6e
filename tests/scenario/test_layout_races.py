"""Layouts that change while an agent is about to answer, or to ask, what they asked before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from laneway.api import CoreNode, VGPUDevice, VGPULayout
from laneway.kube.client import Client
from laneway.kube.resource import served
from support.examples import first
from support.layouts import Q4, QUICK, VGPUS, carried, make, of, settled

GPU = "node1-000008000"
SECONDS = 60.0


class Answers:
    """Answers about GPUs on their way to the API server, which can be held up."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    held = Answers()
    real = Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        if method == "PATCH" and path.endswith("vgpulayouts/all/status"):
            held.reached.set()
            await held.go.wait()
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "call", call)
    return held


@pytest.mark.parametrize("dry_run", first(False, True))
async def test_an_answer_that_comes_after_the_gpu_has_left_the_selection_goes(
    cluster: Any, simulated: Any, answers: Answers, dry_run: bool
) -> None:
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    body = {
        "apiVersion": served(VGPULayout).api_version,
        "kind": "VGPULayout",
        "metadata": {"name": "all"},
        "spec": {
            "dryRun": dry_run,
            "nodeSelector": {"names": ["node1"]},
            "vgpus": [{"profile": "NVIDIA A2-4Q", "count": 1}],
        },
    }
    await cluster.client.create(served(VGPULayout), body)
    seen = asyncio.Event()
    agent.caches.layouts.subscribe(
        lambda _, after: seen.set() if after and after.metadata.generation > 1 else None
    )
    async with asyncio.timeout(SECONDS):
        await answers.reached.wait()
        await cluster.patch(VGPULayout, "all", {"spec": {"nodeSelector": {"names": ["node9"]}}})
        await seen.wait()
    answers.go.set()

    layout = await cluster.until(
        VGPULayout,
        "all",
        lambda one: cluster.reason(one) == "NoGpuSelected" and not one.status.gpus,
    )

    assert layout.status.summary == "0 of 0"


class News:
    """Watches of agents on layouts and nodes, which can be held up."""

    def __init__(self) -> None:
        self.held = False
        self.let_through = asyncio.Event()
        self.acted = asyncio.Event()
        """An agent has desired for a vGPU all the same, or asked what is stored."""


@pytest.fixture
def news(monkeypatch: pytest.MonkeyPatch) -> News:
    found = News()
    late = {served(VGPULayout).path(), served(CoreNode).path()}
    watch, call = Client.watch, Client.call

    async def slow(self: Client, resource: Any, *args: Any, **params: Any) -> AsyncIterator[Any]:
        async for event in watch(self, resource, *args, **params):
            if found.held and resource.path() in late:
                await found.let_through.wait()
            yield event

    async def reported(
        self: Client, method: str, path: str, params: Any = None, body: Any = None, *args: Any
    ) -> bytes:
        answer = await call(self, method, path, params, body, *args)
        desired_states = method == "PATCH" and body.get("spec", {}).get("enabled")
        asks = method == "GET" and any(path.startswith(one) for one in late)
        if found.held and (desired_states or asks):
            found.acted.set()
        return answer

    monkeypatch.setattr(Client, "watch", slow)
    monkeypatch.setattr(Client, "call", reported)
    return found


async def delete(cluster: Any) -> None:
    await cluster.client.delete(served(VGPULayout), "all")


async def ask_for_one(cluster: Any) -> None:
    await cluster.patch(VGPULayout, "all", {"spec": {"vgpus": of(A2_4Q=1)}})


async def move_the_node_away(cluster: Any) -> None:
    await cluster.patch(CoreNode, "node1", {"metadata": {"labels": {"pool": "other"}}})


@pytest.mark.realapi
@pytest.mark.parametrize("end", first(delete, ask_for_one, move_the_node_away))
async def test_what_is_desired_after_a_layout_requests_it_no_more_is_not_put_back(
    cluster: Any,
    simulated: Any,
    news: News,
    end: Callable[[Any], Awaitable[None]],
) -> None:
    """Even where the agent hears of the desired state first: each kind has a watch of its own."""
    cluster.timing = QUICK
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node1", "labels": {"pool": "a2"}},
    }
    await cluster.client.create(served(CoreNode), node)
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", nodeSelector={"matchLabels": {"pool": "a2"}}, vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    await cluster.quiet(agent)

    news.held = True
    await end(cluster)
    desired = await cluster.disable(VGPUS[1])
    async with asyncio.timeout(SECONDS):
        await news.acted.wait()
    news.let_through.set()
    await cluster.quiet(agent)

    now = await cluster.get(VGPUDevice, VGPUS[1])
    assert now.metadata.generation == desired.metadata.generation
    await cluster.answer(VGPUS[1], "NotConfigured")
    assert carried(host) == {Q4: 1}
