"""How long a token of a program is believed, and how often the API server is asked about it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from kapilite.authn import Authenticator
from kubebasics.serving.listening import listening
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.roles.ui import Ui
from laneway.web.api import callers
from laneway.web.api.callers import Callers
from laneway.web.api.errors import Refused
from laneway.web.metrics import UiMetrics
from laneway.web.session.attempts import Attempts, Rate
from laneway.web.session.identity import Person, person_of
from support.signing_in import ADMIN, ALICE, TOKENS, Place, cluster

MORE = {f"alice-{number}": TOKENS[ALICE] for number in range(7)}
UNLIMITED = Rate(10_000, 0.001)
Ask = Callable[..., Coroutine[Any, Any, tuple[int, str]]]


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Site:
    """Answers who asks. A request of `slow` is answered once it may."""

    def __init__(self, found: Callers) -> None:
        self.callers = found
        self.slow = asyncio.Event()
        self.began = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        try:
            async with self.callers.caller(request) as caller:
                if "slow" in request.path:
                    self.began.set()
                    await self.slow.wait()
                await caller.client.raw("/version")
                return web.Response(text=caller.name)
        except Refused as refused:
            return web.Response(status=refused.status, text=refused.text)


class Recognising(Authenticator):
    """Knows tokens until they are taken back."""

    def take_back(self) -> None:
        self._users.clear()


@pytest.fixture
def known() -> Recognising:
    return Recognising(TOKENS | MORE)


@pytest.fixture
async def place(known: Recognising) -> AsyncIterator[Place]:
    async with cluster(known) as found:
        yield found


@pytest.fixture
def reviews(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens about which the API server is asked."""
    found: list[str] = []

    async def asked(client: Client, token: str, now: float) -> Person:
        found.append(token)
        return await person_of(client, token, now)

    monkeypatch.setattr(callers, "person_of", asked)
    return found


@contextlib.asynccontextmanager
async def served(
    config: ClusterConfig, clock: Clock, most: int = 8, of_a_user: Rate = UNLIMITED
) -> AsyncIterator[tuple[Site, Ask]]:
    attempts, requests = Attempts(Rate(3, 60.0)), Attempts(of_a_user, UNLIMITED)
    found = Callers(config, attempts=attempts, requests=requests, most=most, clock=clock)
    site, app = Site(found), web.Application()
    app.router.add_get("/{path:.*}", site.answer)
    async with (
        listening(app, "127.0.0.1", 0, finish_seconds=1.0, cancels=True) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http,
    ):

        async def ask(token: str, path: str = "/") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"}
            async with http.get(path, headers=headers) as response:
                return response.status, await response.text()

        yield site, ask
        await found.close()


async def test_requests_at_once_cost_one_question(place: Place, reviews: list[str]) -> None:
    async with served(place.config, Clock()) as (_, ask):
        assert set(await asyncio.gather(*(ask(ALICE) for _ in range(40)))) == {(200, "alice")}
    assert reviews == [ALICE]


async def test_a_token_is_believed_for_a_minute_and_costs_no_attempt_after(
    place: Place, reviews: list[str], known: Recognising
) -> None:
    clock = Clock()
    async with served(place.config, clock) as (_, ask):
        for number in range(6):  # there are three attempts
            assert await ask(ALICE) == (200, "alice")
            assert len(reviews) == number + 1
            clock.now += 59
            assert await ask(ALICE) == (200, "alice")
            clock.now += 2
        known.take_back()
        assert await ask(ALICE) == (401, "sign_in.token_refused")
        assert [(await ask(f"t{n}"))[0] for n in range(4)] == [401, 401, 401, 429]


async def test_tokens_that_are_accepted_cost_no_attempt(place: Place, known: Recognising) -> None:
    """Behind one address there are many programs."""
    async with served(place.config, Clock()) as (_, ask):
        for token in MORE:  # there are three attempts
            assert await ask(token) == (200, "alice")
        assert await ask(ADMIN) == (200, "admin")
        assert [(await ask(f"t{n}"))[0] for n in range(4)] == [401, 401, 401, 429]


async def test_requests_are_limited_by_user_however_many_tokens_one_has(
    place: Place, reviews: list[str]
) -> None:
    async with served(place.config, Clock(), of_a_user=Rate(2, 600.0)) as (_, ask):
        said = [await ask(token) for token in MORE]
        assert [status for status, _ in said] == [200, 200, 429, 429, 429, 429, 429]
        assert [words for _, words in said[2:]] == ["api.too_many"] * 3 + [
            "api.too_many_tokens"
        ] * 2
        assert len(reviews) == 5


async def test_the_least_used_is_forgotten_unless_it_is_being_answered(
    place: Place, reviews: list[str]
) -> None:
    async with served(place.config, Clock(), most=1) as (site, ask):
        waits = asyncio.create_task(ask(ALICE, "/slow"))
        await site.began.wait()
        assert await ask(ADMIN) == (503, "api.no_room")
        site.slow.set()
        assert await waits == (200, "alice")
        assert await ask(ADMIN) == (200, "admin")
        assert len(reviews) == 3


async def test_while_the_api_server_is_away_a_token_is_neither_believed_nor_forgotten(
    place: Place,
) -> None:
    clock = Clock()
    async with served(place.config, clock) as (_, ask):
        assert await ask(ALICE) == (200, "alice")
        await place.server.stop()
        clock.now += 61
        for _ in range(5):
            assert await ask(ALICE) == (503, "sign_in.server_away")
        await place.server.start()
        assert await ask(ALICE) == (200, "alice")


async def test_numbers_that_may_be_out_of_date_are_not_told(place: Place) -> None:
    """The interface does not reach the API server, which answers its users."""
    metrics, away = UiMetrics(CollectorRegistry()), ClusterConfig(Cluster("http://127.0.0.1:1"))
    async with Client(away, connect_delays=()) as client, aiohttp.ClientSession() as http:
        ui = Ui(client, place.config, metrics, host="127.0.0.1", port=0, option="--address")
        task = asyncio.create_task(ui.run())
        await ui._listening.wait()
        gone = asyncio.Event()
        ui._server.subscribe(gone.set)
        if ui._server.away_since is None:
            await gone.wait()
        headers = {"Authorization": f"Bearer {ADMIN}"}
        url = f"http://127.0.0.1:{ui.port}/v1/harvester/cluster/local?link=deviceCapacity"
        async with http.get(url, headers=headers) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "5")
            assert "the devices that are free are not known" in (await response.json())["message"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
