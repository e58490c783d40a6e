"""What a node's record of its driver proves, next to what the kernel has now."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.driver_toolkit.standing import PENDING, judge, unreadable
from laneway.core.driver_toolkit.state import Driver, State

OLD, NEW = Driver("550.54.16", "0a" * 32), Driver("570.133.20", "0b" * 32)


def state(**more: Any) -> State:
    return State(**{"stage": "Ready", "wanted": NEW, "serving": NEW, "boot": "b1"} | more)


def test_a_driver_in_service() -> None:
    found = judge(state(), "b1", NEW.version)

    assert (found.ready, found.reason) == (True, "DriverReady")
    assert NEW.version in found.message
    assert not found.failed


@pytest.mark.parametrize("loaded", ["", OLD.version])
def test_a_record_alone_makes_no_driver(loaded: str) -> None:
    found = judge(state(), "b1", loaded)

    assert (found.ready, found.reason, found.failed) == (False, "DriverNotLoaded", True)
    assert (loaded or "no driver") in found.message


@pytest.mark.parametrize(("loaded", "ready"), [("", False), (NEW.version, None)])
def test_a_record_of_another_boot_says_nothing_of_this_one(loaded: str, ready: bool | None) -> None:
    for stage in ("Ready", "Failed", "Stopped"):
        found = judge(state(stage=stage), "b2", loaded)

        assert (found.ready, found.reason, found.failed) == (ready, "DriverNotStarted", False)


@pytest.mark.parametrize("stage", ["Starting", "Downloading", "Installing", "Loading"])
def test_a_driver_on_its_way_tells_how_far_it_is(stage: Any) -> None:
    found = judge(state(stage=stage, serving=None, message="17 of 40 MiB (42 %)"), "b1", "")

    assert (found.ready, found.reason, found.failed) == (False, "DriverInstalling", False)
    assert "17 of 40 MiB" in found.message
    assert found.reason in PENDING


def test_a_driver_on_its_way_is_not_told_as_one_that_is_there() -> None:
    found = judge(state(stage="Loading", serving=None), "b1", "")
    assert found.message == "Driver 570.133.20 is not in service yet: loading."

    back = judge(state(stage="Installing", serving=None, message="installing driver 550"), "b1", "")
    assert "is not in service yet: installing driver 550." in back.message


def test_a_failure_bears_the_toolkits_words_and_what_serves_instead() -> None:
    failed = state(stage="Failed", reason="BuildFailed", message="error: no member", serving=OLD)
    found = judge(failed, "b1", OLD.version)

    assert (found.ready, found.reason, found.failed) == (False, "BuildFailed", True)
    assert "570.133.20 is not in service: error: no member." in found.message
    assert "550.54.16 serves meanwhile" in found.message


def test_a_container_that_ended_is_no_failure() -> None:
    assert judge(state(stage="Stopped", serving=None), "b1", NEW.version).reason == "DriverStopped"


def test_a_reason_that_is_no_word_is_not_passed_on() -> None:
    found = judge(state(stage="Failed", reason="<b>no</b>", serving=None), "b1", "")

    assert found.reason == "DriverFailed"


def test_what_cannot_be_read_is_not_told_as_a_failure() -> None:
    found = unreadable("state.json is damaged")

    assert found.ready is None
    assert not found.failed
