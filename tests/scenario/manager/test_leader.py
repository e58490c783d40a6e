"""Of several processes one leads, whatever happens to them and to their line to the API server."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.leader import LEASES, Election, Timing

pytestmark = pytest.mark.realapi

NAMESPACE = "harvester-system"
NAME = "laneway-manager"


class Candidate:
    """A process that would lead, and when it did."""

    def __init__(self, lines: Any, line: Any, identity: str) -> None:
        self.line = line
        self.clock = lines.clock
        self.election = Election(
            line, NAMESPACE, NAME, identity, timing=Timing(), clock=lines.clock, jitter=lambda: 0.0
        )
        self.at_work = False
        self.terms: list[tuple[float, float]] = []
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        began = self.clock.seconds
        self.at_work = True
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work = False
            self.terms.append((began, self.clock.seconds))

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def candidates(lines: Any) -> AsyncIterator[tuple[Candidate, Candidate]]:
    both = [Candidate(lines, await lines.line(), name) for name in ("one", "two")]
    yield both[0], both[1]
    for one in both:
        if one.task is not None and not one.task.done():
            one.line.cut = True  # so that no task waits for a clock that stands still
            await one.stop()


Both = tuple[Candidate, Candidate]


async def _lease(line: Any) -> Any:
    return (await line.get(LEASES, NAME, NAMESPACE)).spec


async def test_the_first_leads_and_the_other_stands_by(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    two.start()
    await lines.seconds(60)
    assert one.at_work
    assert not two.at_work
    assert (one.election.leading, two.election.leading) == (True, False)
    assert two.election.holder == "one"


async def test_a_lease_reads_as_client_go_writes_it(candidates: Both, lines: Any) -> None:
    one, _ = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    first = await _lease(one.line)
    await lines.seconds(10)
    later = await _lease(one.line)
    assert (first.holder_identity, first.lease_duration_seconds) == ("one", 15)
    assert first.lease_transitions == 0
    assert re.fullmatch(r"2026-01-02T[0-9:]{8}\.[0-9]{6}Z", first.renew_time)
    assert first.acquire_time == later.acquire_time
    assert first.renew_time < later.renew_time


async def test_who_stops_in_good_order_gives_the_lease_back(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    two.start()
    await lines.seconds(5)
    await one.stop()
    left = await _lease(two.line)
    assert (left.holder_identity, left.lease_duration_seconds) == ("", 1)
    began = lines.clock.seconds
    await lines.until(lambda: two.at_work)
    assert lines.clock.seconds - began < Timing().renew_seconds / 2, "it need not wait"
    taken = await _lease(two.line)
    assert (taken.holder_identity, taken.lease_transitions) == ("two", 1)


async def test_who_cannot_renew_stops_before_the_other_begins(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    two.start()
    await lines.seconds(5)
    one.line.cut = True
    await lines.until(lambda: two.at_work)
    assert not one.at_work
    assert not one.election.leading
    (_, ended), began = one.terms[0], lines.clock.seconds
    assert ended < began
    one.line.cut = False
    await lines.seconds(30)
    assert two.at_work
    assert not one.at_work, "it stands by again"
    await two.stop()
    await lines.until(lambda: one.at_work)


async def test_a_server_that_does_not_answer_is_no_better(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    two.start()
    await lines.seconds(5)
    one.line.silent = True
    since = lines.clock.seconds
    await lines.until(lambda: two.at_work)
    assert not one.at_work
    assert one.terms[0][1] <= since + Timing().renew_seconds, "not a moment longer than it may"


async def test_a_short_outage_changes_nothing(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    two.start()
    await lines.seconds(5)
    one.line.cut = two.line.cut = True
    await lines.seconds(6)
    one.line.cut = two.line.cut = False
    await lines.seconds(30)
    assert one.at_work
    assert one.terms == []


async def test_of_two_that_begin_at_once_one_leads(candidates: Both, lines: Any) -> None:
    one, two = candidates
    for _ in range(3):
        one.start()
        two.start()
        await lines.until(lambda: one.at_work or two.at_work)
        await lines.seconds(10)
        assert one.at_work != two.at_work
        for candidate in candidates:
            await candidate.stop()


async def test_of_two_that_find_the_lease_free_one_gets_it(candidates: Both, lines: Any) -> None:
    one, two = candidates
    body = {"metadata": {"name": NAME}, "spec": {"leaseDurationSeconds": 1}}
    await one.line.create(LEASES, body, NAMESPACE)
    one.line.writing = two.line.writing = asyncio.Barrier(2)
    one.start()
    two.start()
    await lines.until(lambda: one.at_work or two.at_work)
    one.line.writing = two.line.writing = None
    await lines.seconds(2)
    assert one.at_work != two.at_work


async def test_who_finds_the_lease_taken_stops_at_once(candidates: Both, lines: Any) -> None:
    one, _ = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    other = {"holderIdentity": "a person", "leaseDurationSeconds": 15}
    while True:
        try:
            lease = await one.line.get(LEASES, NAME, NAMESPACE)
            version = {"resourceVersion": lease.metadata.resource_version}
            await one.line.patch(LEASES, NAME, {"metadata": version, "spec": other}, NAMESPACE)
            break
        except ConflictError:
            continue
    began = lines.clock.seconds
    await lines.until(lambda: not one.at_work)
    assert lines.clock.seconds - began < Timing().renew_seconds / 2
    await lines.until(lambda: one.at_work)
    assert lines.clock.seconds - began >= 15, "the person has the time that was granted"


async def test_who_stops_when_another_has_the_lease_leaves_it(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    one.line.writing = writing = asyncio.Barrier(2)
    # It is free at once, so the leader tries to get it back, and is stopped while it writes.
    spec = {"holderIdentity": "a person", "leaseDurationSeconds": None}
    await two.line.patch(LEASES, NAME, {"spec": spec}, NAMESPACE)
    async with asyncio.timeout(60):
        while writing.n_waiting == 0:
            lines.clock.advance(0.5)
            await asyncio.sleep(0.002)
    one.line.writing = None
    await one.stop()
    assert (await _lease(two.line)).holder_identity == "a person"


async def test_a_lease_that_was_deleted_is_made_again(candidates: Both, lines: Any) -> None:
    one, two = candidates
    one.start()
    await lines.until(lambda: one.at_work)
    await one.line.delete(LEASES, NAME, NAMESPACE)
    await lines.seconds(5)
    two.start()
    await lines.seconds(10)
    assert one.terms == []
    assert (await _lease(one.line)).holder_identity == "one"


async def test_without_the_namespace_no_manager_leads_and_that_is_reported_once(
    lines: Any, caplog: pytest.LogCaptureFixture
) -> None:
    line = await lines.line()
    lost = Election(line, "no-such-namespace", NAME, "one", clock=lines.clock)
    task = asyncio.create_task(lost.run(lambda: asyncio.sleep(0)))
    await lines.seconds(20)
    assert not lost.leading
    (reported,) = [
        record for record in caplog.records if "no-such-namespace" in record.getMessage()
    ]
    assert "lease" in reported.getMessage()
    task.cancel()


async def test_work_that_fails_ends_everything_and_frees_the_lease(
    candidates: Both, lines: Any
) -> None:
    one, _ = candidates

    async def fail() -> None:
        raise ZeroDivisionError

    task = asyncio.create_task(one.election.run(fail))
    await lines.until(task.done)
    with pytest.raises(ZeroDivisionError):
        await task
    assert not one.election.leading
    assert (await _lease(one.line)).holder_identity == ""


async def test_a_lease_of_the_past_is_taken_over_when_its_time_is_up(
    candidates: Both, lines: Any
) -> None:
    one, _ = candidates
    body = {
        "metadata": {"name": NAME},
        "spec": {
            "holderIdentity": "who is no more",
            "leaseDurationSeconds": 15,
            "renewTime": "2001-01-01T00:00:00.000000Z",
            "leaseTransitions": 4,
        },
    }
    with contextlib.suppress(NotFoundError):
        await one.line.delete(LEASES, NAME, NAMESPACE)
    await one.line.create(LEASES, body, NAMESPACE)
    began = lines.clock.seconds
    one.start()
    await lines.until(lambda: one.at_work)
    assert 15 <= lines.clock.seconds - began <= 18, "its clock may be wrong: only ours counts"
    assert (await _lease(one.line)).lease_transitions == 5
