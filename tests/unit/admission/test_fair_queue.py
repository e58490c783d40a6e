"""Who requests much waits behind his own."""

from __future__ import annotations

import asyncio

import pytest

from laneway.admission.fair_queue import FairQueue

Consumer = tuple[str, str]


class Office:
    """Where turns are taken; keeps who had one."""

    def __init__(self) -> None:
        self.fair_queue = FairQueue()
        self.had: list[Consumer] = []

    async def visit(self, peer: str, user: str = "") -> None:
        async with self.fair_queue.turn(peer, user):
            self.had.append((peer, user))

    def queue(self, *whos: Consumer) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.visit(*consumer)) for consumer in whos]


@pytest.fixture
def office() -> Office:
    return Office()


async def test_peers_and_their_users_take_turns(office: Office) -> None:
    hostile = [("1.1.1.1", "mallory")] * 3
    async with asyncio.timeout(10), office.fair_queue.turn("first"):
        tasks = office.queue(
            *hostile, ("1.1.1.1", "bob"), ("1.1.1.1", "bob"), ("2.2.2.2", ""), ("2.2.2.2", "")
        )
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    mallory, bob, other = ("1.1.1.1", "mallory"), ("1.1.1.1", "bob"), ("2.2.2.2", "")
    assert office.had == [mallory, other, bob, other, mallory, bob, mallory]


async def test_a_client_that_goes_away_delays_no_others(office: Office) -> None:
    async with asyncio.timeout(10):
        async with office.fair_queue.turn("first"):
            waiting, chosen, last = office.queue(("a", ""), ("b", ""), ("c", ""))
            await asyncio.sleep(0)
            waiting.cancel()
        chosen.cancel()  # It is its turn, and it does not know yet.
        await last
    assert office.had == [("c", "")]
    async with asyncio.timeout(10), office.fair_queue.turn("a"):
        pass


async def test_a_turn_that_fails_is_over(office: Office) -> None:
    with pytest.raises(ValueError, match="defect"):
        async with office.fair_queue.turn("a"):
            raise ValueError("defect")
    await asyncio.wait_for(office.visit("b"), 10)
