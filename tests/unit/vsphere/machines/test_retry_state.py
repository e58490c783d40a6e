"""What is remembered of attempts: waits grow, and what cannot succeed waits for a change."""

from __future__ import annotations

from laneway.core.vsphere.inventory.vms import Fault
from laneway.vsphere.machines.retry_state import FOREVER, Pace, RetryState

FAULT = Fault("HostCommunication", "The host does not answer.")
PACE = Pace(first=2.0, longest=60.0, readmit=100.0)


def retries(jitter: float = 1.0) -> RetryState:
    return RetryState("uid", jitter=lambda: jitter)


def test_waits_grow_to_a_limit_and_differ_between_machines() -> None:
    one, other = retries(), retries(0.0)
    waits = [one.failed(FAULT, 0.0, PACE, terminal=False) for _ in range(8)]
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert other.failed(FAULT, 0.0, PACE, terminal=False) == 1.0


def test_what_was_done_begins_the_count_again() -> None:
    one = retries()
    one.failed(FAULT, 0.0, PACE, terminal=False)
    one.succeeded()
    assert one.fault is None
    assert one.failed(FAULT, 0.0, PACE, terminal=False) == 2.0


def test_what_cannot_succeed_waits_for_a_change_and_not_for_time() -> None:
    one = retries()
    one.failed(FAULT, 10.0, PACE, terminal=True)
    assert one.due == FOREVER
    one.changed(frozenset({"host-1"}), 20.0, PACE)
    assert 20.0 < one.due < FOREVER


def test_what_changed_since_it_was_ordered_is_a_reason_to_try_again() -> None:
    one = retries()
    one.changed(frozenset({"host-1"}), 5.0, PACE)
    one.order()
    one.failed(FAULT, 10.0, PACE, terminal=True)
    assert one.due == FOREVER
    one.order()
    one.changed(frozenset({"host-1"}), 15.0, PACE)
    one.failed(FAULT, 20.0, PACE, terminal=True)
    assert 20.0 < one.due < FOREVER


def test_an_inventory_that_changes_all_the_time_makes_no_loop() -> None:
    one, now, attempts = retries(), 0.0, 0
    while now < 3600.0:
        if now >= one.due:
            one.order()
            one.failed(FAULT, now, PACE, terminal=True)
            attempts += 1
        now += 0.5
        one.changed(frozenset({"host-1"}), now, PACE)
    assert attempts < 70


def test_a_new_desired_state_is_tried_at_once() -> None:
    one = retries()
    one.rewritten((1, False))
    one.failed(FAULT, 0.0, PACE, terminal=True)
    one.rewritten((1, False))
    assert one.due == FOREVER
    one.rewritten((2, False))
    assert one.due == 0.0


def test_hosts_are_tried_again_when_they_change_or_much_later() -> None:
    one = retries()
    one.exclude("host-1", 0.0, PACE)
    one.exclude("host-2", 0.0, PACE)
    assert not one.forgive(0.0, PACE)
    one.changed(frozenset({"host-1", "host-3"}), 1.0, PACE)
    assert set(one.excluded) == {"host-1", "host-2"}  # as long as there are others
    assert one.forgive(1.0, PACE)
    assert set(one.excluded) == {"host-2"}
    assert not one.forgive(1.0, PACE)
    one.readmit(99.0)
    assert set(one.excluded) == {"host-2"}
    one.readmit(100.0)
    assert not one.excluded


def test_a_host_is_struck_for_what_may_be_of_all_only_after_several_failures_in_a_row() -> None:
    one = retries()
    assert [one.suspect("host-1") for _ in range(3)] == [False, False, True]
    one.exclude("host-1", 0.0, PACE)
    assert [one.suspect("host-2") for _ in range(2)] == [False, False]
    assert [one.suspect("host-1") for _ in range(2)] == [False, False]
    one.succeeded()
    assert [one.suspect("host-1") for _ in range(3)] == [False, False, True]


def test_a_doubted_host_is_tried_again_sooner_than_one_that_said_that_it_cannot() -> None:
    one = retries()
    one.exclude("host-1", 0.0, PACE)
    one.exclude("host-2", 0.0, PACE, suspected=True)
    assert one.rest(0.0, PACE) == 4.0
    one.readmit(4.0)
    assert set(one.excluded) == {"host-1"}
    assert one.rest(90.0, PACE) == 10.0
    one.readmit(100.0)
    assert not one.excluded
    assert one.rest(100.0, PACE) == PACE.rest
    for _ in range(20):
        one.exclude("host-1", 0.0, PACE, suspected=True)
    assert one.excluded == {"host-1": PACE.longest}


def test_a_change_before_the_start_on_a_host_is_no_reason_to_try_again() -> None:
    one = retries()
    one.order("host-1")
    one.changed(frozenset({"host-1"}), 1.0, PACE)
    one.order("host-1")
    one.exclude("host-1", 2.0, PACE)
    assert not one.forgive(2.0, PACE)


def test_a_host_that_changes_while_it_tries_is_tried_less_and_less_often() -> None:
    one, now, attempts = retries(), 0.0, 0
    while now < 3600.0:
        if now >= one.due and "host-1" not in one.excluded:
            one.order("host-1")
            one.changed(frozenset({"host-1"}), now, PACE)
            one.exclude("host-1", now, PACE)
            attempts += 1
        one.forgive(now, PACE)
        now += 0.5
    assert 30 < attempts < 70
