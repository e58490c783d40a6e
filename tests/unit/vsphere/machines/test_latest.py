"""However far a cache is behind, no decision misses the manager's own writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.api.vsphere import VSphereReservation
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.resource import Key, served
from laneway.roles.install import install_crds
from laneway.vsphere.machines.latest import Latest
from support.api_server import contents, running

KIND = served(VSphereReservation)
KEY = Key("default", "one")


class Site:
    """One object, a cache that can be stopped, and how often the server was asked."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cache = Informer(client, KIND)
        self.latest = Latest(self.cache, self._read)
        self.reads = 0
        self._watch: asyncio.Task[None] | None = None

    async def _read(self, key: Key) -> Any:
        self.reads += 1
        return await self.client.get(KIND, key.name, key.namespace)

    async def make(self) -> Any:
        body = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": {"name": "one"}}
        return await self.client.create(KIND, body | {"spec": {"vCenter": "a"}}, KEY.namespace)

    async def write(self, host: str) -> Any:
        return await self.client.patch(KIND, "one", {"spec": {"host": host}}, KEY.namespace)

    async def shown(self, host: str | None) -> None:
        """Have the cache follow until it shows this; None: that there is none."""
        self._watch = self._watch or asyncio.create_task(self.cache.run())
        async with asyncio.timeout(30):
            while self._of_cache() != host:  # noqa: ASYNC110 - the store announces nothing
                await asyncio.sleep(0.01)

    def _of_cache(self) -> str | None:
        found = self.cache.store.get("one", KEY.namespace)
        return None if found is None else found.spec.host

    async def stand_still(self) -> None:
        """The cache shows nothing more."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
            self._watch = None

    async def host(self) -> str:
        return str((await self.latest.get(KEY)).spec.host)


@pytest.fixture(scope="module")
def stocked() -> bytes:
    return contents(install_crds)


@pytest.fixture
async def site(stocked: bytes, tmp_path: Path) -> AsyncIterator[Site]:
    async with (
        running(tmp_path, stocked) as kubeconfig,
        Client(load(kubeconfig)) as client,
    ):
        site = Site(client)
        yield site
        await site.stand_still()


async def test_the_server_is_asked_once_and_then_the_cache(site: Site) -> None:
    await site.make()
    await site.shown("")
    assert [await site.host(), await site.host()] == ["", ""]
    await site.write("h1")
    await site.shown("h1")
    assert await site.host() == "h1"
    assert site.reads == 1


async def test_what_the_last_leader_wrote_is_seen_though_the_cache_is_behind(site: Site) -> None:
    await site.make()
    await site.shown("")
    await site.stand_still()
    await site.write("h1")
    assert await site.host() == "h1"
    assert await site.host() == "h1"


async def test_an_own_write_counts_until_the_cache_shows_something_newer(site: Site) -> None:
    await site.make()
    await site.shown("")
    assert await site.host() == ""
    await site.stand_still()
    site.latest.wrote(await site.write("h1"))
    assert await site.host() == "h1"
    await site.shown("h1")
    await site.write("h2")
    await site.shown("h2")
    assert await site.host() == "h2"
    assert site.reads == 1


async def test_an_answer_that_comes_after_a_newer_change_does_not_count(site: Site) -> None:
    await site.make()
    await site.shown("")
    await site.host()
    answer = await site.write("h1")
    await site.write("h2")
    await site.shown("h2")
    site.latest.wrote(answer)
    assert await site.host() == "h2"


async def test_what_is_gone_is_not_there_and_what_is_made_again_is_another(site: Site) -> None:
    first = await site.make()
    await site.shown("")
    await site.host()
    site.latest.wrote(await site.write("h1"))
    await site.client.delete(KIND, "one", KEY.namespace)
    await site.shown(None)
    with pytest.raises(NotFoundError):
        await site.latest.get(KEY)
    second = await site.make()
    await site.shown("")
    found = await site.latest.get(KEY)
    assert found.metadata.uid == second.metadata.uid != first.metadata.uid


@pytest.mark.parametrize(
    "invalidate",
    [lambda latest: latest.invalidate(KEY), Latest.forget],
    ids=["conflict", "new leader"],
)
async def test_who_doubts_asks_the_server(site: Site, invalidate: Callable[[Any], None]) -> None:
    await site.make()
    await site.shown("")
    await site.host()
    await site.stand_still()
    await site.write("h1")
    assert await site.host() == ""
    invalidate(site.latest)
    assert await site.host() == "h1"
