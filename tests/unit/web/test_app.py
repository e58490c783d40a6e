"""A defect of ours is told, and takes nothing from a user who has typed something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NoReturn

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from laneway.controllers.ledger.source import LedgerSource
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.web.access import Access, Question
from laneway.web.app import Web
from laneway.web.caches import Caches
from laneway.web.metrics import UiMetrics
from laneway.web.page import Action, Page, Routes
from laneway.web.rendering import Rendering, Texts
from laneway.web.server_state import ServerState
from laneway.web.visit import Site, Visit


class Anyone:
    """The only user, who has no rights."""

    name = "anyone"

    def __init__(self, client: Client) -> None:
        self.client, self.access = client, Access(client)


class Users:
    def __init__(self, client: Client) -> None:
        self._user = Anyone(client)

    async def user(self, request: web.Request, questions: Sequence[Question]) -> Anyone:
        return self._user

    def csrf(self, request: web.Request) -> str:
        return "token"

    def live(self, request: web.Request) -> bool:
        return "Ended" not in request.headers


def defective(_visit: Visit) -> NoReturn:
    raise ZeroDivisionError


async def act(visit: Visit) -> NoReturn:
    defective(visit)


@pytest.fixture
async def browser() -> AsyncIterator[TestClient[Any, Any]]:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        caches = Caches.of(client)
        rendering = Rendering(Texts())
        site = Site(caches, LedgerSource(caches), rendering, ServerState(client))
        page = Page("/broken", "problem.html", defective, title="nav.gpus")
        routes = Routes([page], [Action("/broken", act)])
        app = web.Application()
        Web(site, Users(client), routes, UiMetrics(CollectorRegistry())).add_to(app)
        async with TestClient(TestServer(app)) as found:
            yield found


async def test_a_page_that_fails_is_a_page_that_says_so(browser: TestClient[Any, Any]) -> None:
    answer = await browser.get("/broken")
    assert answer.status == 500
    assert "This is a defect of Laneway." in await answer.text()


async def test_what_fails_because_its_session_has_ended_is_the_guards(
    browser: TestClient[Any, Any],
) -> None:
    answer = await browser.get("/broken", headers={"Ended": "yes"})
    assert "defect" not in await answer.text()


async def test_a_form_that_fails_stays_and_a_notice_says_so(browser: TestClient[Any, Any]) -> None:
    answer = await browser.post("/broken", data={"name": "typed"}, headers={"HX-Request": "true"})
    assert answer.status == 500
    assert answer.headers["HX-Retarget"] == "#session-notice"
    text = await answer.text()
    assert "What you have typed stays." in text
    assert "<html" not in text
