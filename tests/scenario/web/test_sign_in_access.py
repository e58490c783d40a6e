"""What a user may do is what the API server says, asked with the user's own token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from laneway.kube.client import Client
from laneway.kube.errors import KubeError
from laneway.web.access import Access, Question
from laneway.web.session.identity import client_for
from support.signing_in import ADMIN, ALICE, RBAC, TEAM, Place, cluster

LIST = Question("list", "", "pods")
GET = Question("get", "", "pods", TEAM)
NAMESPACES = ["default", TEAM, "kube-system"]


class Clock:
    """The age of answers, which a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with cluster() as found:
        yield found


class CountingClient(Client):
    """Counts the questions that reach the server."""

    asked = 0

    async def call(self, *args, **options):  # type: ignore[no-untyped-def]
        CountingClient.asked += 1
        return await super().call(*args, **options)


@pytest.fixture
async def alice(place: Place, clock: Clock) -> AsyncIterator[Access]:
    async with client_for(place.config, ALICE) as client:
        access = Access(client, clock)
        yield access
        await access.close()


async def settled(access: Access) -> None:
    """Wait until every question in the background is answered."""
    await asyncio.gather(*access._asking.values())


async def test_nothing_is_allowed_before_it_is_known(alice: Access) -> None:
    assert alice.known(GET) is None
    assert not alice.may(GET)
    await alice.load([GET, LIST])
    assert alice.may(GET)
    assert not alice.may(LIST)
    assert not alice.may(GET._replace(verb="delete"))


async def test_one_that_is_closed_asks_nothing(alice: Access) -> None:
    await alice.close()
    await alice.load([GET])
    assert alice.known(GET) is None


async def test_a_user_of_one_namespace_sees_that_one(alice: Access) -> None:
    assert await alice.load_namespaces(LIST, NAMESPACES) == {TEAM}
    assert alice.namespaces(LIST, NAMESPACES) == {TEAM}


async def test_one_question_is_enough_for_an_administrator(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    CountingClient.asked = 0
    monkeypatch.setattr("laneway.web.tracing.Client", CountingClient)
    async with client_for(place.config, ADMIN) as client:
        access = Access(client)
        assert await access.load_namespaces(LIST, NAMESPACES) == set(NAMESPACES)
        await access.load([LIST, LIST])
        assert CountingClient.asked == 1


async def test_the_role_lends_the_user_nothing(place: Place) -> None:
    async with client_for(place.config, "unknown") as client:
        with pytest.raises(KubeError, match="401"):
            await client.raw("/api/v1/namespaces")


async def test_a_right_that_is_taken_away_is_noticed_while_the_answer_is_served(
    place: Place, alice: Access, clock: Clock
) -> None:
    await alice.load([GET])
    path = f"/apis/{RBAC}/v1/namespaces/{TEAM}/rolebindings/readers"
    await place.client.call("DELETE", path)
    clock.now += 31
    assert alice.may(GET)  # And the question is asked again.
    await settled(alice)
    assert not alice.may(GET)


async def test_what_cannot_be_asked_again_is_unknown_after_a_while(
    place: Place, alice: Access, clock: Clock
) -> None:
    await alice.load([GET])
    await place.server.stop()
    clock.now += 200
    assert alice.may(GET)
    await settled(alice)
    assert isinstance(alice.failure, KubeError)
    assert alice.may(GET)
    clock.now += 200
    assert alice.known(GET) is None
    await alice.load([GET])
    assert not alice.may(GET)
