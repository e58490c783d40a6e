"""A webhook that has its process to itself does not let the garbage collector go through all."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from laneway.admission.world import World
from laneway.apiserver.credentials.pki import ensure
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.roles.webhook import Webhook


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


@pytest.mark.parametrize("alone", [False, True])
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
