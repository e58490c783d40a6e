"""Leaders and those that stand by, where the server says when to renew a Lease."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.leader import Election
from support.fast_time import FastTime
from support.fault_proxy import FaultProxy

NAMESPACE, NAME = "default", "lease"


class Candidate:
    """A process that would lead, and its line to the server."""

    def __init__(self, line: FaultProxy, client: Client, identity: str) -> None:
        self.line = line
        self.at_work = False
        election = Election(client.unwaiting(), NAMESPACE, NAME, identity)
        self.task = asyncio.create_task(election.run(self._lead))

    async def _lead(self) -> None:
        self.at_work = True
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work = False


@pytest.fixture
async def candidates(cluster: Any, tmp_path: Path) -> AsyncIterator[list[Candidate]]:
    """The first leads, and the second stands by."""
    async with contextlib.AsyncExitStack() as stack:
        found: list[Candidate] = []
        for identity in ("one", "two"):
            config = load(str(tmp_path / "kubeconfig"))
            line = await stack.enter_async_context(FaultProxy(config).running())
            client = await stack.enter_async_context(Client(line.config))
            found.append(Candidate(line, client, identity))
            await line.until(lambda line=line: any(one.status for one in line.asked))
            await line.until(lambda: found[0].line.count("create") == 1)
        yield found
        for one in found:
            one.task.cancel()
        await asyncio.gather(*(one.task for one in found), return_exceptions=True)


@pytest.fixture
async def time(candidates: list[Candidate]) -> FastTime:
    return FastTime(lambda: any(one.line.busy for one in candidates))


async def test_a_leader_that_may_come_back_in_time_keeps_its_lease(
    candidates: list[Candidate], time: FastTime
) -> None:
    one, two = candidates
    refused = one.line.refuse(429, times=1, Retry_After="6")
    for _ in range(30):
        await time.passes(2, step=0.5)
        assert (one.at_work, two.at_work) == (True, False)
    assert len(refused.hits) == 1


async def test_a_leader_that_may_not_stops_and_no_candidate_asks_before_it_may(
    candidates: list[Candidate], time: FastTime
) -> None:
    one, two = candidates
    for candidate in candidates:
        candidate.line.refuse(429, times=1, Retry_After="200")
    await time.passes(20)
    assert (one.at_work, two.at_work) == (False, False), "its lease has run out"
    asked = [len(candidate.line.asked) for candidate in candidates]
    await time.passes(160)
    assert [len(candidate.line.asked) for candidate in candidates] == asked
    await time.passes(30)
    assert one.at_work != two.at_work
