"""A webhook in a process of its own: where it listens, and what its garbage collector is spared."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from kapilite.credentials.pki import ensure
from laneway.admission.world import World
from laneway.cli.health import host_and_port
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.roles.webhook import Webhook
from support.examples import first


class Known:
    """Caches that are complete from the beginning."""

    world = World()

    def waiting_for(self) -> list[str]:
        return []

    async def run(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


async def test_without_a_host_all_addresses_are_served(
    tmp_path: Path, everywhere: tuple[int, list[str]]
) -> None:
    pki = ensure(str(tmp_path))
    port, loopbacks = everywhere
    host, port = host_and_port(f":{port}", "--address")
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        webhook = Webhook(
            client,
            CollectorRegistry(),
            Known(),
            cert_file=pki.server_cert,
            key_file=pki.server_key,
            host=host,
            port=port,
        )
        running = asyncio.create_task(webhook.run())
        async with asyncio.timeout(30), aiohttp.ClientSession() as session:
            await webhook.ready.wait()
            for one in loopbacks:
                url = f"https://{one}:{port}/v1/webhook/validation"
                async with session.get(url, ssl=False) as response:
                    assert response.status == 405  # Reviews are sent by POST.
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@pytest.mark.parametrize("alone", first(True, False))
async def test_only_one_that_is_alone_spares_the_collector(
    alone: bool, tmp_path: Path, thawed: None
) -> None:
    pki = ensure(str(tmp_path))
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        webhook = Webhook(
            client,
            CollectorRegistry(),
            Known(),
            cert_file=pki.server_cert,
            key_file=pki.server_key,
            host="127.0.0.1",
            port=0,
            alone=alone,
        )
        running = asyncio.create_task(webhook.run())
        before = gc.get_freeze_count()
        async with asyncio.timeout(30):
            await webhook.ready.wait()
        assert (gc.get_freeze_count() > before) is alone
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
