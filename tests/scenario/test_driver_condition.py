"""An agent publishes how the driver of its node is, as the driver toolkit has left it there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laneway.api import DeviceNode, find_condition
from laneway.controllers import node_publisher
from laneway.host.driver_record import RECORD
from laneway.sim.spec import build, parse_spec
from support.plans import BOOT


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is looked at all the time."""
    monkeypatch.setattr(node_publisher, "DRIVER_SECONDS", 0.02)


def record(cluster: Any) -> Path:
    return Path(cluster.folder, "node1", RECORD)


def leave(cluster: Any, **state: Any) -> None:
    """A record on node1, as a container of the toolkit writes it."""
    path = record(cluster)
    path.parent.mkdir(parents=True, exist_ok=True)
    driver = {"version": "535.183.01", "sha256": "0a" * 32}
    path.write_text(json.dumps({"boot": BOOT, "wanted": driver} | state))


async def said(cluster: Any, reason: str) -> Any:
    """Wait for a reason of the condition; the condition."""

    def holds(one: Any) -> bool:
        found = one and find_condition(one.status.conditions, "Driver")
        return bool(found) and found.reason == reason

    found = await cluster.until(DeviceNode, "node1", holds)
    return find_condition(found.status.conditions, "Driver")


async def test_how_the_driver_is(cluster: Any) -> None:
    host = build(parse_spec("a2"), "node1")
    version = host.read("/sys/module/nvidia/version").decode().strip()
    await cluster.start_agent("node1", host)
    node = await cluster.get(DeviceNode, "node1")
    assert find_condition(node.status.conditions, "Driver") is None

    leave(cluster, stage="Downloading", message="17 of 40 MiB (42 %)")
    found = await said(cluster, "DriverInstalling")
    assert (found.status, "17 of 40 MiB" in found.message) == ("False", True)

    leave(cluster, stage="Failed", reason="HashMismatch", message="it has another SHA-256")
    assert (await said(cluster, "HashMismatch")).status == "False"

    leave(cluster, stage="Ready", serving={"version": version, "sha256": "0a" * 32})
    found = await said(cluster, "DriverReady")
    assert (found.status, version in found.message) == ("True", True)

    leave(cluster, stage="Ready", boot="an earlier one")
    assert (await said(cluster, "DriverNotStarted")).status == "Unknown"

    record(cluster).write_text("{")
    assert (await said(cluster, "DriverStateUnreadable")).status == "Unknown"

    record(cluster).unlink()
    assert (await said(cluster, "NoDriverToolkit")).status == "Unknown"
