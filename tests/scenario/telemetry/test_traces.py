"""One change of an object is one trace, told by the webhook and by the agent of its node.

The receiver speaks OTLP over HTTP as a collector does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from laneway.api import PCIDeviceClaim, VGPUDevice
from laneway.core.tracing import DELETION, root
from laneway.kube.errors import ApiError
from laneway.kube.resource import served
from laneway.roles.telemetry import telemetry
from support import layouts
from support.otlp_receiver import Received, Receiver, in_thread

VGPU = "node1-000008004"
FUNCTION = "0000:08:00.4"
Q4 = "NVIDIA A2-4Q"
NIC, NIC_ADDRESS = "node1-000017001", "0000:17:00.1"


@pytest.fixture
def reviewed() -> bool:
    """A webhook of this module's own takes the place of the fixture's."""
    return True


@pytest.fixture
async def webhook_tracer(receiver: Receiver) -> AsyncIterator[Any]:
    async with in_thread(
        telemetry("laneway-webhook", CollectorRegistry(), endpoint=receiver.url)
    ) as told:
        yield told.tracer


@pytest.fixture
async def traced(cluster: Any, receiver: Receiver) -> AsyncIterator[Any]:
    """The cluster, whose agents send their spans."""
    sending = telemetry(
        "laneway-agent", cluster.families.registry, endpoint=receiver.url, node="node1"
    )
    async with in_thread(sending) as told:
        cluster.tracer = told.tracer
        yield cluster


def of(receiver: Receiver, obj: Any) -> list[Received]:
    """The spans of one generation of an object."""
    trace = f"{root(obj.metadata.uid, obj.metadata.generation).trace:032x}"
    return [span for span in receiver.spans if span.trace == trace]


async def complete(receiver: Receiver, obj: Any, *names: str) -> list[Received]:
    """Wait for spans of an object by their names, and give all of its trace."""
    await receiver.until(lambda: {*names} <= {span.name for span in of(receiver, obj)})
    return of(receiver, obj)


async def test_one_change_is_one_trace_from_its_write_to_its_last_step(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    await traced.start_agent("node1", simulated("a2", "node1"))
    await traced.ask(VGPU, Q4)
    vgpu = await traced.answer(VGPU, "Configured")

    spans = await complete(receiver, vgpu, "admission VGPUDevice", "reconcile VGPUDevice")

    by_id = {span.id: span for span in spans}
    (first,) = [span for span in spans if not span.parent]
    assert (first.service, first.name) == ("laneway-webhook", "admission VGPUDevice")
    assert all(span.parent in by_id for span in spans if span is not first)
    told = {(span.service, span.name, by_id[span.parent].name) for span in spans if span.parent}
    assert told == {
        ("laneway-agent", "reconcile VGPUDevice", "admission VGPUDevice"),
        ("laneway-agent", "plan", "reconcile VGPUDevice"),
        ("laneway-agent", "carry out", "reconcile VGPUDevice"),
        ("laneway-agent", "CreateMdev", "carry out"),
    }
    (step,) = [span for span in spans if span.name == "CreateMdev"]
    assert step.attributes["laneway.device"] == FUNCTION
    assert step.attributes["laneway.outcome"] == "done"
    assert not any(span.error for span in spans)
    assert first.ended <= step.began <= step.ended
    # What is in order has no span, however often it is looked at.
    assert len([span for span in receiver.spans if span.name.startswith("reconcile")]) == 1


async def test_a_write_that_desires_nothing_new_has_no_span(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    await traced.start_agent("node1", simulated("a2", "node1"))
    noted = await traced.patch(VGPUDevice, VGPU, {"metadata": {"annotations": {"a": "b"}}})
    await traced.ask(VGPU, Q4)
    vgpu = await traced.answer(VGPU, "Configured")

    await complete(receiver, vgpu, "admission VGPUDevice")

    assert vgpu.metadata.generation == noted.metadata.generation + 1
    reviews = [span.name for span in of(receiver, noted) if span.service == "laneway-webhook"]
    assert reviews == ["admission VGPUDevice"]  # of its creation


async def test_a_step_that_fails_and_an_attempt_that_is_refused_are_errors(
    traced: Any, receiver: Receiver, gate: Any
) -> None:
    host = gate("a2", "node1")
    await traced.start_agent("node1", host)
    host.refused = "/create"
    await traced.ask(VGPU, Q4)
    vgpu = await traced.answer(VGPU, "WriteFailed")

    spans = await complete(receiver, vgpu, "reconcile VGPUDevice", "carry out", "CreateMdev")

    by_name = {span.name: span for span in spans}
    assert "EBUSY" in by_name["CreateMdev"].error
    assert "EBUSY" in by_name["carry out"].error
    assert by_name["reconcile VGPUDevice"].attributes["laneway.reason"] == "WriteFailed"
    assert by_name["plan"].error == ""


async def test_a_refused_write_has_a_trace_of_its_own(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    await traced.start_agent("node1", simulated("a2", "node1"))
    with pytest.raises(ApiError):
        await traced.ask(VGPU, "NVIDIA A2-7Q")
    await receiver.until(lambda: any(span.error for span in receiver.spans))
    await traced.ask(VGPU, Q4)
    vgpu = await traced.answer(VGPU, "Configured")

    spans = await complete(receiver, vgpu, "reconcile VGPUDevice")

    (refused,) = [span for span in receiver.spans if span.error]
    assert refused.attributes["laneway.outcome"] == "refused"
    assert "A2-7Q" in refused.error
    assert refused.trace not in {span.trace for span in spans}


async def test_the_deletion_of_a_claim_is_a_trace_until_its_device_is_back_on_its_driver(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    await traced.start_agent("node1", simulated("plain", "node1"))
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": NIC},
        "spec": {"address": NIC_ADDRESS, "nodeName": "node1", "userName": "kim"},
    }
    claim = await traced.client.create(served(PCIDeviceClaim), body)
    await traced.until(PCIDeviceClaim, NIC, lambda one: bool(one.status.passthrough_enabled))
    await traced.client.delete(served(PCIDeviceClaim), NIC)
    await traced.until(PCIDeviceClaim, NIC, lambda one: one is None)

    trace = f"{root(claim.metadata.uid, DELETION).trace:032x}"
    await receiver.until(
        lambda: any(
            (span.trace, span.name) == (trace, "release PCIDeviceClaim") for span in receiver.spans
        )
    )
    spans = [span for span in receiver.spans if span.trace == trace]
    by_id = {span.id: span for span in spans}
    (first,) = [span for span in spans if not span.parent]
    assert (first.service, first.name) == ("laneway-webhook", "admission PCIDeviceClaim")
    assert first.attributes["laneway.operation"] == "DELETE"
    told = {(span.name, by_id[span.parent].name) for span in spans if span.parent}
    assert told >= {
        ("reconcile PCIDeviceClaim", "admission PCIDeviceClaim"),
        ("carry out", "reconcile PCIDeviceClaim"),
        ("release PCIDeviceClaim", "admission PCIDeviceClaim"),
    }
    (released,) = [span for span in spans if span.name == "release PCIDeviceClaim"]
    steps = [span for span in spans if by_id.get(span.parent, first).name == "carry out"]
    assert steps
    assert all(released.began <= step.began <= step.ended <= released.ended for step in steps)


async def test_the_trace_of_a_layout_links_to_those_of_the_objects_that_it_writes(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    await traced.start_agent("node1", simulated("a2", "node1"))
    layout = await layouts.make(traced, "two", vgpus=layouts.of(A2_4Q=2))
    await layouts.settled(traced, "two", "Done")

    spans = await complete(receiver, layout, "admission VGPULayout", "reconcile VGPULayout")

    (first,) = [span for span in spans if not span.parent]
    written = [span for span in spans if span.name == "write objects"]
    assert {span.parent for span in spans if span is not first} == {first.id}
    links = {link for span in written for link in span.links}
    vgpus = [one for one in await traced.all(VGPUDevice) if one.spec.enabled]
    assert len(vgpus) == 2
    for vgpu in vgpus:
        above = root(vgpu.metadata.uid, vgpu.metadata.generation)
        assert (f"{above.trace:032x}", f"{above.span:016x}") in links
        assert "CreateMdev" in {span.name for span in await complete(receiver, vgpu, "CreateMdev")}


async def test_a_layout_that_is_refused_says_why_in_its_trace(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    await traced.start_agent("node1", simulated("a2", "node1"))
    layout = await layouts.make(traced, "much", vgpus=layouts.of(A2_8Q=3))

    spans = await complete(receiver, layout, "reconcile VGPULayout")

    (refused,) = [span for span in spans if span.name == "reconcile VGPULayout"]
    assert "A2-8Q" in refused.error
    assert refused.attributes["laneway.gpu"] == layouts.A2
    assert not [span for span in spans if span.name == "write objects"]


async def test_the_trace_of_a_killed_agents_plan_goes_on_with_the_next_agent(
    traced: Any, receiver: Receiver, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    agent = await traced.start_agent("node1", host)
    host.faults.kill_at(1, "after")
    await traced.ask(VGPU, Q4)
    await traced.died(agent)
    host.restart()
    await traced.start_agent("node1", host)
    vgpu = await traced.answer(VGPU, "Configured")

    spans = await complete(receiver, vgpu, "carry out", "CreateMdev")

    by_id = {span.id: span for span in spans}
    (plan,) = [span for span in spans if span.name == "carry out"]
    assert plan.attributes["laneway.recovered"] == "True"
    assert by_id[plan.parent].name == "admission VGPUDevice"
