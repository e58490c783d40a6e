"""Laws of a whole agent, whatever users, the hardware, the API and the kill signal do.

Random stories happen to GPUs and their agent, with faults in between. Once things have calmed
down, hardware is as desired or the object says why not, and the status tells the hardware. At no
time is a vGPU taken away that is still desired, nor are the functions of a GPU.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kapilite.server import ApiServer
from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.host.plans.execute import execute
from laneway.host.plans.recover import recover
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.roles.install import install_crds
from support.agent_stories import FUNCTIONS, PROFILES, Faults, Story, Unreliable
from support.api_server import kubeconfig_of
from support.examples import many
from support.plans import BRIEF

NUMBERS = st.integers(0, FUNCTIONS - 1)
CHOICES = st.integers(0, 4)
EVENTS = st.one_of(
    st.tuples(st.just("enable"), NUMBERS, st.integers(0, 2)),
    st.tuples(st.just("enable"), NUMBERS, CHOICES),
    st.tuples(st.just("disable"), NUMBERS),
    st.tuples(st.just("prepare"), NUMBERS, CHOICES),
    st.tuples(st.just("foreign"), NUMBERS, st.integers(0, 2)),
    st.tuples(st.just("delete"), NUMBERS),
    st.tuples(st.just("gpu"), st.booleans()),
    st.tuples(st.just("gpu"), st.booleans()),
    st.tuples(st.just("manage"), st.booleans()),
    st.tuples(st.sampled_from(["unplug", "plug", "restart", "settle", "settle"])),
    st.tuples(st.just("fail_request"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("fail_write"), st.integers(1, 3)),
    st.tuples(st.just("kill"), st.integers(1, 6)),
)


@pytest.fixture
def laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Plays a story; one API server and one event loop serve all stories of a test."""
    for carry_out in (execute, recover):
        # A change that looks half done here is another's: waiting shows nothing new.
        monkeypatch.setitem(carry_out.__kwdefaults__, "limits", BRIEF)
    server = ApiServer()
    with asyncio.Runner() as runner:
        runner.run(server.start())
        kubeconfig = kubeconfig_of(server, tmp_path)

        async def play(model: str, events: list[Any]) -> None:
            faults = Faults()
            async with (
                Client(load(kubeconfig)) as client,
                Unreliable(load(kubeconfig)) as unreliable,
            ):
                unreliable.faults = faults
                await install_crds(client)
                for cls in (VGPUDevice, SRIOVGPUDevice):
                    async for page in client.list(served(cls)):
                        for item in page.items:
                            name = served(cls).decode(item).metadata.name
                            await client.delete(served(cls), name)
                folder = Path(tempfile.mkdtemp(dir=tmp_path))
                story = Story(model, client, unreliable, faults, folder)
                try:
                    await story.start()
                    for event in events:
                        await story.step(*event)
                    await story.calm()
                finally:
                    await story.stop()
                assert story.machine.wrong == []

        yield lambda model, events: runner.run(play(model, events))
        runner.run(server.stop())


@pytest.mark.slow
@given(st.sampled_from(sorted(PROFILES)), st.lists(EVENTS, max_size=14))
@example("a2", [("kill", 1), ("enable", 0, 0), ("enable", 0, 2), ("foreign", 0, 0)])
@example("a2", [("settle",), ("gpu", False), ("settle",), ("manage", True)])
@example(
    "l40s", [("settle",), ("kill", 2), ("gpu", False), ("settle",), ("gpu", True), ("enable", 0, 0)]
)
@settings(
    max_examples=many(12),
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
def test_a_story_ends_as_desired_or_says_why_not(laws, model: str, story: list[Any]) -> None:
    laws(model, story)
