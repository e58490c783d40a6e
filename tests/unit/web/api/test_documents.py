"""The document of a large cluster is made once, even if a client goes away meanwhile."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Facts
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.web.api import capacity
from laneway.web.api.capacity import Documents
from laneway.web.caches import Caches
from laneway.web.place import Place
from laneway.web.rendering import Rendering, Texts
from laneway.web.visit import Site, User, Visit


def visit() -> Visit:
    """That of a user who may do everything."""
    caches = Caches.of(Client(ClusterConfig(Cluster("http://127.0.0.1:1"))))
    ledger = cast(Any, SimpleNamespace(ledger=build(Facts((), (), ()))))
    site = Site(caches, ledger, Rendering(Texts()), cast(Any, SimpleNamespace(away_since=None)))
    access = SimpleNamespace(
        may=lambda _asked: True, known=lambda _asked: True, load=AsyncMock(), failure=None
    )
    user = cast(User, SimpleNamespace(name="alice", access=access, client=None))
    return Visit(site, user, Place(path="/api/v1/capacity"))


async def test_a_client_that_goes_away_makes_no_second_thread_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, may_end = capacity._document, threading.Event()
    began, made = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def slow(*args: Any) -> capacity.Document:
        made.append(args)
        loop.call_soon_threadsafe(began.set)
        may_end.wait()
        return make(*args)

    monkeypatch.setattr(capacity, "_document", slow)
    documents, seen = Documents(), visit()
    try:
        first = asyncio.create_task(documents.whole(seen))
        await began.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(documents.whole(seen))
        await asyncio.sleep(0)
    finally:
        may_end.set()
    assert (await second).plain
    assert len(made) == 1
