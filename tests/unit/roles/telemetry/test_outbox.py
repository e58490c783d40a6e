"""What is on its way to a receiver: bounded, tried again, counted where it is given up."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry, Counter

from laneway.roles.telemetry.errors import SendError
from laneway.roles.telemetry.outbox import Limits, Outbox

SECONDS = 30.0


class Place:
    """A receiver that can be closed, and hold up what is delivered."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.asked = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self.failures = 0

    def deliver(self, batch: Sequence[int]) -> None:
        self.asked.release()
        self.open.wait(SECONDS)
        if self.failures:
            self.failures -= 1
            raise SendError("closed")
        self.got += batch


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def unsent() -> Counter:
    return Counter("unsent", "Not sent.", registry=CollectorRegistry())


def count(counter: Counter) -> float:
    return sum(one.value for one in counter.collect()[0].samples if one.name == "unsent_total")


def outbox(place: Place, unsent: Counter, limits: Limits = Limits()) -> Outbox[int]:  # noqa: B008
    return Outbox(place.deliver, "numbers to a place", unsent, limits=limits)


def test_all_arrive_in_their_order_before_the_block_has_ended(
    place: Place, unsent: Counter
) -> None:
    with outbox(place, unsent, Limits(batch=3)).running() as box:
        for number in range(100):
            box.put(number)
    assert place.got == list(range(100))
    assert count(unsent) == 0


def test_what_finds_no_room_is_counted_and_told_once(
    place: Place, unsent: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    place.open.clear()
    with outbox(place, unsent, Limits(room=5)).running() as box:
        box.put(0)
        assert place.asked.acquire(timeout=SECONDS)
        for number in range(1, 20):
            box.put(number)  # does not wait, though the receiver takes nothing
        assert count(unsent) == 15
        place.open.set()
    assert place.got == [0, 1, 2, 3, 4]
    assert [one for one in caplog.messages if "no room" in one] == [
        "numbers to a place: 5 wait to be sent, and there is no room for more"
    ]


def test_what_is_not_taken_is_tried_again_and_told_once_and_once_it_is_over(
    place: Place, unsent: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    place.failures = 3
    limits = Limits(first_pause=0.0, longest_pause=0.0)
    with outbox(place, unsent, limits).running() as box:
        box.put(1)
        for _ in range(4):
            assert place.asked.acquire(timeout=SECONDS)
    assert place.got == [1]
    assert count(unsent) == 0
    assert [one.split(":")[0] for one in caplog.messages] == [
        "numbers to a place are not accepted",
        "numbers to a place",
    ]


def test_what_is_given_up_makes_room_for_what_comes_later(place: Place, unsent: Counter) -> None:
    place.failures = 1
    with outbox(place, unsent, Limits(patience=0.0)).running() as box:
        box.put(1)
        assert place.asked.acquire(timeout=SECONDS)
        box.put(2)
        assert place.asked.acquire(timeout=SECONDS)
    assert place.got == [2]
    assert count(unsent) == 1


def test_the_end_does_not_wait_for_a_receiver_that_does_not_answer(
    place: Place, unsent: Counter
) -> None:
    place.open.clear()
    with outbox(place, unsent, Limits(closing=0.0)).running() as box:
        box.put(1)
        assert place.asked.acquire(timeout=SECONDS)
        box.put(2)
    assert count(unsent) == 2
    place.open.set()
