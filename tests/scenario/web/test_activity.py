"""Activity: events of the cluster, selected by device, user, kind and time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from laneway.core import keys
from laneway.core.hardware_change import REASON, HardwareChange, StepChange, written
from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import SeparateSite


def _make(site: SeparateSite, name: str, user: str, age: timedelta) -> None:
    step = StepChange(f"create a vGPU for {user}", "done", device="0000:08:00.4")
    change = HardwareChange(
        plan=name, outcome="finished", actor="laneway agent", user=user, steps=[step]
    )
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"annotations": {keys.ANNOTATION_HARDWARE_CHANGE: written(change)}},
        "involvedObject": {"kind": "VGPUDevice", "name": f"vgpu-of-{user}"},
        "reason": REASON,
        "message": "Done.",
        "type": "Normal",
        "lastTimestamp": (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "source": {"component": "laneway-agent", "host": "n1"},
    }
    site.make("/api/v1/namespaces/default/events", event, name)


@pytest.fixture(scope="module", autouse=True)
def _events(troubled: SeparateSite) -> None:
    _make(troubled, "write-of-anna", "anna", timedelta(minutes=30))
    _make(troubled, "write-of-bob", "bob", timedelta(hours=3))


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ("kind=write", {"anna", "bob"}),
        ("who=bob", {"bob"}),
        ("device=vgpu-of-anna", {"anna"}),
        ("device=n1/0000:08:00.4", {"anna", "bob"}),
        ("kind=write&time=minutes", set()),
        ("kind=write&time=hour", {"anna"}),
        ("kind=write&time=day", {"anna", "bob"}),
        ("q=create+a+vGPU+for+bob", {"bob"}),
    ],
)
async def test_writes_are_selected(admin_of_troubled: Browser, query: str, users: set[str]) -> None:
    def are_shown(text: str) -> bool:
        return {user for user in ("anna", "bob") if f"create a vGPU for {user}" in text} == users

    await Person(admin_of_troubled).waits(f"/activity?{query}", are_shown)
