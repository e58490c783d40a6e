"""A cluster may get KubeVirt long after Laneway."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from laneway.admission.caches import AdmissionCaches
from laneway.kube.kubevirt import VIRTUAL_MACHINES, VirtualMachine
from laneway.simcluster.kubevirt.install import install

SECONDS = 60.0


async def test_kinds_that_a_cluster_gets_later_are_known_then(cluster: Any) -> None:
    if cluster.server is None:
        pytest.skip("the real server has KubeVirt's kinds from other tests")
    caches = AdmissionCaches.of(cluster.client)
    seen: asyncio.Queue[VirtualMachine | None] = asyncio.Queue()
    caches.informers.vms.subscribe(lambda _, new: seen.put_nowait(new))
    running = asyncio.create_task(caches.run())
    try:
        async with asyncio.timeout(SECONDS):
            for informer in caches.informers.all.values():
                await informer.answered.wait()
            await caches.source.known.wait()
            # It is ready without them.
            assert caches.waiting_for() == []
            assert caches.informers.vms.unserved

            await install(cluster.client)
            spec = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}
            body = {"metadata": {"name": "later"}, "spec": spec}
            kind = {"apiVersion": VIRTUAL_MACHINES.api_version, "kind": "VirtualMachine"}
            await cluster.client.create(VIRTUAL_MACHINES, {**kind, **body}, "default")
            assert (await seen.get()) is not None
            await caches.informers.installations.synced.wait()
        assert [one.metadata.name for one in caches.world.vms] == ["later"]
        assert [one.metadata.name for one in caches.world.installations] == ["kubevirt"]
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
