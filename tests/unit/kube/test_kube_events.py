"""Events are written, counted and limited, and never get in the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from laneway.kube.events import BUFFER, BURST, EventRecorder
from laneway.kube.resource import ObjectRef

NODE = ObjectRef("v1", "Node", "", "node-1", "uid-1", "77")
POD = ObjectRef("v1", "Pod", "team", "pod-1", "uid-2")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@contextlib.asynccontextmanager
async def recording(script: Any, clock: Clock) -> AsyncIterator[EventRecorder]:
    async with script.client() as client:
        recorder = EventRecorder(client, "laneway-agent", "node-1", clock=clock)
        task = asyncio.create_task(recorder.run())
        try:
            yield recorder
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_an_event_says_what_happened_to_what(script, clock: Clock) -> None:
    script.replies.append(script.body(201, script.thing("e", 1)))

    async with recording(script, clock) as recorder:
        recorder.record(NODE, "Unplugged", "the card is gone", warning=True)
        await recorder.flush()

    (seen,) = script.seen
    event = seen.json
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/default/events")
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("node-1.")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "node-1",
        "uid": "uid-1",
        "resourceVersion": "77",
    }
    assert (event["type"], event["reason"]) == ("Warning", "Unplugged")
    assert event["message"] == "the card is gone"
    assert event["count"] == 1
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-02T03:04:05Z"
    assert event["source"] == {"component": "laneway-agent", "host": "node-1"}


async def test_the_same_event_again_is_counted_on_the_first(plain, clock: Clock) -> None:
    plain.replies += [plain.body(201, plain.thing("e", 1)), plain.body(200, plain.thing("e", 2))]

    async with recording(plain, clock) as recorder:
        recorder.record(POD, "Waiting", "no GPU")
        clock.now += timedelta(seconds=60)
        recorder.record(POD._replace(resource_version="99"), "Waiting", "no GPU")
        await recorder.flush()

    created, counted = plain.seen
    assert created.path == "/api/v1/namespaces/team/events"
    assert counted.method == "PATCH"
    assert counted.path == f"{created.path}/{created.json['metadata']['name']}"
    assert counted.json == {"count": 2, "lastTimestamp": "2030-01-02T03:05:05Z"}


@pytest.mark.parametrize(
    "other", [(NODE, "Waiting", "no GPU"), (POD, "Failed", "no GPU"), (POD, "Waiting", "no VF")]
)
async def test_another_event_is_not_counted_on_it(plain, clock: Clock, other) -> None:
    plain.replies += [plain.body(201, plain.thing("e", 1))] * 2

    async with recording(plain, clock) as recorder:
        recorder.record(POD, "Waiting", "no GPU")
        recorder.record(*other)
        await recorder.flush()

    assert [one.method for one in plain.seen] == ["POST", "POST"]


async def test_an_event_that_has_expired_is_written_again(plain, clock: Clock) -> None:
    made = plain.body(201, plain.thing("e", 1))
    plain.replies += [made, plain.body(404, plain.failure(404, "NotFound")), made]

    async with recording(plain, clock) as recorder:
        recorder.record(POD, "Waiting", "no GPU")
        recorder.record(POD, "Waiting", "no GPU")
        await recorder.flush()

    assert [one.method for one in plain.seen] == ["POST", "PATCH", "POST"]
    assert plain.seen[2].json["count"] == 1


async def test_a_fault_in_a_loop_is_limited_per_object(plain, clock: Clock) -> None:
    plain.replies += [plain.body(201, plain.thing("e", 1))] * 100

    async with recording(plain, clock) as recorder:
        for number in range(80):
            recorder.record(POD, "Looping", f"round {number}")
        recorder.record(NODE, "Other", "is not affected")
        await recorder.flush()
        assert len(plain.seen) == BURST + 1
        assert recorder.dropped == 80 - BURST
        clock.now += timedelta(minutes=10)
        for number in range(10):
            recorder.record(POD, "Looping", f"later round {number}")
        await recorder.flush()

    assert len(plain.seen) == BURST + 1 + 2


async def test_what_cannot_be_written_is_dropped_and_the_next_is_written(
    script, clock: Clock, caplog
) -> None:
    script.replies += [
        script.body(403, script.failure(403, "Forbidden")),
        script.reset,
        script.body(201, b"nonsense"),
        script.body(201, script.thing("e", 1)),
    ]

    async with recording(script, clock) as recorder:
        for reason in ("One", "Two", "Three", "Four"):
            recorder.record(NODE, reason, "text")
        await recorder.flush()

    assert len(script.seen) == 4
    assert recorder.dropped == 3
    assert "event One on node-1: as scripted (403 Forbidden)" in caplog.text


async def test_recording_never_waits_for_a_server_that_is_away(plain, clock: Clock) -> None:
    async with plain.client() as client:
        recorder = EventRecorder(client, "laneway-agent", clock=clock)
        for number in range(BUFFER + 5):
            recorder.record(NODE._replace(uid=f"uid-{number}"), "Lost", "text")

    assert recorder.dropped == 5


async def test_names_and_messages_are_kept_within_what_the_api_takes(plain, clock: Clock) -> None:
    plain.replies.append(plain.body(201, plain.thing("e", 1)))
    long = NODE._replace(name="a" * 199 + "." + "b" * 53)

    async with recording(plain, clock) as recorder:
        recorder.record(long, "Long", "x" * 5000)
        await recorder.flush()

    event = plain.seen[0].json
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]
    assert len(event["message"]) == 1024
