"""Layouts that change while an agent is about to answer what they asked before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.api import VGPULayout
from laneway.kube.client import Client
from laneway.kube.resource import served

GPU = "node1-000008000"
SECONDS = 20.0


class Answers:
    """Answers about GPUs on their way to the API server, which can be held up."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    held = Answers()
    real = Client._call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        if method == "PATCH" and path.endswith("vgpulayouts/all/status"):
            held.reached.set()
            await held.go.wait()
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "_call", call)
    return held


@pytest.mark.parametrize("dry_run", [False, True])
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
    agent._layouts.subscribe(
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
        lambda one: cluster.reason(one) == "NothingSelected" and not one.status.gpus,
    )

    assert layout.status.summary == "0 of 0"
