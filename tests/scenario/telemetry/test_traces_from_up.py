"""A change that a person makes in the web interface is one trace, by the whole of `laneway up`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.otlp_receiver import Received, Receiver
from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import SimulatedSite

VGPU = "sim-a2-1-000008004"
CHANGE = f"/vgpus/change?do=enable&row={VGPU}&profile=NVIDIA+A2-4Q"


@pytest.fixture
def site(tmp_path: Path, receiver: Receiver) -> Iterator[SimulatedSite]:
    found = SimulatedSite(tmp_path / "data", ["a2"], "--otlp-endpoint", receiver.url)
    yield found
    found.end()


async def test_a_change_in_the_web_interface_is_traced_to_its_last_step(
    site: SimulatedSite, receiver: Receiver
) -> None:
    async with Browser(site.address) as browser:
        assert (await browser.sign_in(site.administrator)).status == 303
        status, report = await Person(browser).sends(CHANGE, [("row", VGPU)])
    assert status in (200, 303), report

    def trace() -> list[Received]:
        [found] = [one for one in receiver.spans if one.name == "change VGPUDevice"] or [None]
        return [one for one in receiver.spans if found and one.trace == found.trace]

    await receiver.until(
        lambda: {one.name for one in trace()} >= {"CreateMdev", "reconcile VGPUDevice"}
    )
    spans = await asyncio.to_thread(trace)
    assert {one.service for one in spans} == {"laneway-up"}
    above = {one.name: one.parent for one in spans}
    [first] = [one for one in spans if one.name == "admission VGPUDevice"]
    assert above["change VGPUDevice"] == above["reconcile VGPUDevice"] == first.id
    [change] = [one for one in spans if one.name == "change VGPUDevice"]
    assert change.attributes["laneway.object.name"] == VGPU
    assert change.began <= first.began <= first.ended <= change.ended
    assert not any("admin" in str(one.attributes) for one in spans)
