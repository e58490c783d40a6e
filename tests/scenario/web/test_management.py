"""What a session knows of the management cluster while that comes, goes and refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from laneway.core.ledger.ledger import Ledger
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig, User
from laneway.kube.errors import ForbiddenError, UnauthorizedError, UnreachableError
from laneway.kube.rancher import GUEST_CLUSTERS, WORKSPACE
from laneway.simcluster.rancher.install import install
from laneway.web.judging import Judging
from laneway.web.management import PAUSE_SECONDS, Management, Remote
from support.signing_in import ADMIN, ALICE, Place, cluster


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with cluster() as place:
        await install(place.client)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORKSPACE}}
        await place.client.call("POST", "/api/v1/namespaces", None, namespace)
        yield place


async def make(client: Client, name: str) -> None:
    body = {
        "apiVersion": GUEST_CLUSTERS.api_version,
        "kind": GUEST_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"rkeConfig": {"machinePools": []}},
    }
    await client.create(GUEST_CLUSTERS, body, WORKSPACE)


def names(known: Management) -> list[str]:
    assert known.known is not None
    return [one.metadata.name for one in known.known.managed.clusters]


async def test_what_is_known_stays_while_the_cluster_is_away_and_that_is_told(place: Place) -> None:
    clock = Clock()
    management = Management(clock)
    await make(place.client, "first")
    async with Client(place.config, connect_delays=()) as client:
        await management.look(client, client)
        assert names(management) == ["first"]
        await make(place.client, "second")
        await management.look(client, client)
        assert names(management) == ["first"], "a moment ago is soon enough for a page"
        clock.now += PAUSE_SECONDS
        await management.look(client, client)
        assert names(management) == ["first", "second"]
        await place.server.stop()
        clock.now += PAUSE_SECONDS
        await management.look(client, client)
        assert isinstance(management.problem, UnreachableError)
        assert names(management) == ["first", "second"]


async def test_a_right_that_is_withdrawn_takes_what_was_known_away(place: Place) -> None:
    clock = Clock()
    management = Management(clock)
    await make(place.client, "first")
    alice = ClusterConfig(place.config.cluster, User(token=ALICE))
    async with Client(place.config) as client, Client(alice) as her:
        await management.look(client, client)
        clock.now += PAUSE_SECONDS
        await management.look(her, client)
        assert isinstance(management.problem, ForbiddenError)
        assert management.known is None


async def test_a_page_that_is_open_is_told_of_what_is_new(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.web.management.PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("laneway.web.management.SHARE", 1)
    management, changed = Management(), asyncio.Event()
    async with Client(place.config) as client:
        await management.look(client, client)

        async def same() -> Client:
            return client

        async def judge() -> None:
            await management.judge(Ledger(), judging)

        judging = Judging()
        follow = management.follow(same, client, judging, judge, changed.set)
        task = asyncio.create_task(follow)
        await make(place.client, "first")
        async with asyncio.timeout(20):
            while names(management) != ["first"]:
                await changed.wait()
                changed.clear()
        changed.clear()
        await make(place.client, "second")
        await management.look_now(client, client)
        async with asyncio.timeout(20):
            await changed.wait()  # Another page of the session has seen it first.
        task.cancel()


async def test_the_event_loop_goes_on_while_pools_are_judged_one_at_a_time(place: Place) -> None:
    management, judging, others = Management(), Judging(), threading.Event()
    async with Client(place.config) as client:
        await management.look(client, client)
    busy = asyncio.ensure_future(judging.run(others.wait))
    task = asyncio.create_task(management.judge(Ledger(), judging))
    try:
        assert await asyncio.wait([task], timeout=0.1) == (set(), {task})
        assert management.judged is None
    finally:
        others.set()
    await task
    assert await busy
    assert management.judged is not None


async def test_what_was_judged_is_forgotten_with_what_was_known(place: Place) -> None:
    management, judging, others = Management(), Judging(), threading.Event()
    async with Client(place.config) as client:
        await management.look(client, client)
    busy = asyncio.ensure_future(judging.run(others.wait))
    task = asyncio.create_task(management.judge(Ledger(), judging))
    await asyncio.sleep(0)
    await management.close()
    others.set()
    await asyncio.gather(task, busy)
    assert management.judged is None


async def test_the_kubeconfig_serves_only_the_user_who_started_the_interface(place: Place) -> None:
    remote = Remote(place.config, place.client)
    assert await remote.credentials_are_of("admin")
    assert not await remote.credentials_are_of("alice")
    assert not await remote.credentials_are_of("")
    nobody = ClusterConfig(Cluster(place.server.url))
    async with Client(nobody) as client:
        with pytest.raises(UnauthorizedError):
            await Remote(place.config, client).credentials_are_of("")


async def test_a_token_is_checked_before_it_replaces_another(place: Place) -> None:
    management = Management()
    await management.sign_in(place.config, ADMIN)
    client: Any = management.client
    with pytest.raises(UnauthorizedError):
        await management.sign_in(place.config, "nonsense")
    assert (management.name, management.client) == ("admin", client)
    assert ADMIN not in repr(management)
    await management.end()
    await management.open(place.config)
    assert (management.name, management.client, management.access) == ("", None, None)


async def test_a_session_that_ends_during_a_sign_in_keeps_no_client(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    management = Management()
    close = management.close

    async def closing() -> None:
        monkeypatch.undo()
        await close()
        await management.end()

    monkeypatch.setattr(management, "close", closing)
    await management.sign_in(place.config, ADMIN)
    assert (management.name, management.client, management.access) == ("", None, None)
