"""Rows of what happened, from events that anybody may have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from laneway.api import decode
from laneway.core import keys
from laneway.core.hardware_change import HardwareChange, StepChange, written
from laneway.views.activity import Event, moment, row_of

CHANGE = HardwareChange(
    plan="plan-1",
    outcome="finished",
    actor="laneway agent",
    user="anna",
    steps=[StepChange("create a vGPU A2-4Q", "done", device="0000:08:00.4")],
)


def event(name: str, time: str = "2030-01-01T00:00:00Z", **more: Any) -> Event:
    raw = {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "VGPUDevice", "name": "node1-000008004"},
        "type": "Normal",
        "reason": "Configured",
        "message": "It is configured.",
        "lastTimestamp": time,
        "eventTime": None,
        "source": {"component": "laneway-agent", "host": "node1"},
    }
    return decode(Event, raw | more)


def write(name: str, time: str = "2030-01-01T00:00:00Z", **more: Any) -> Event:
    noted = {keys.ANNOTATION_HARDWARE_CHANGE: written(CHANGE)}
    metadata = {"name": name, "namespace": "default", "annotations": noted}
    return event(name, time, **({"metadata": metadata, "reason": "HardwareChanged"} | more))


def test_a_write_has_its_user_its_device_and_its_steps() -> None:
    row = row_of(write("a"))
    assert (row.who, row.outcome, row.node, row.devices) == (
        "anna",
        "done",
        "node1",
        ("0000:08:00.4",),
    )
    assert [step.words for step in row.steps] == ["create a vGPU A2-4Q"]
    assert (row_of(event("b")).who, row_of(event("b")).outcome) == ("", "")


@pytest.mark.parametrize("text", ["", "{", '{"plan":"x","outcome":"finished","steps":[1]}'])
def test_an_event_with_a_damaged_annotation_is_a_plain_one(text: str) -> None:
    noted = {keys.ANNOTATION_HARDWARE_CHANGE: text}
    row = row_of(write("a", metadata={"name": "a", "annotations": noted}))
    assert (row.who, row.steps, row.text) == ("", (), "It is configured.")
    # Nor does the annotation count on an event about something else.
    assert row_of(write("a", reason="Started")).who == ""


def test_a_time_is_read_in_every_form_and_its_absence_is_no_error() -> None:
    series = {"count": 7, "lastObservedTime": "2030-01-01T00:00:09.000001Z"}
    seen = row_of(event("a", series=series))
    assert (seen.times, seen.time) == (7, "2030-01-01T00:00:09.000001Z")
    assert row_of(event("a", "soon")).moment < row_of(event("b")).moment
    assert moment("2030-01-01") == datetime(2030, 1, 1, tzinfo=UTC)
    assert moment("<script>") is None
