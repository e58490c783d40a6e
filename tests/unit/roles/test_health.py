"""Health, readiness and metrics as a kubelet and Prometheus request them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from laneway.cli.health import host_and_port
from laneway.roles.health import HealthError, health_server


async def _get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{host}:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_readiness_names_what_is_not_ready_and_follows_it() -> None:
    waiting = {"node-b", "node-a"}
    async with health_server("127.0.0.1", 0, CollectorRegistry(), lambda: waiting) as port:
        assert await _get(port, "/readyz") == (503, "not ready: node-a, node-b\n")
        assert await _get(port, "/healthz") == (200, "ok\n")
        waiting.clear()
        assert await _get(port, "/readyz") == (200, "ok\n")
        waiting.add("node-a")
        assert (await _get(port, "/readyz"))[0] == 503


async def test_without_a_host_all_addresses_are_served(
    everywhere: tuple[int, list[str]],
) -> None:
    port, loopbacks = everywhere
    host, port = host_and_port(f":{port}")
    async with health_server(host, port, CollectorRegistry(), list):
        assert [await _get(port, "/healthz", one) for one in loopbacks] == [
            (200, "ok\n") for _ in loopbacks
        ]


async def test_metrics_are_what_prometheus_reads() -> None:
    registry = CollectorRegistry()
    Counter("writes", "Writes.", registry=registry).inc(3)
    async with health_server("127.0.0.1", 0, registry, list) as port:
        status, text = await _get(port, "/metrics")
    assert status == 200
    [family] = [f for f in text_string_to_metric_families(text) if f.name == "writes"]
    assert [s.value for s in family.samples if s.name == "writes_total"] == [3]


async def test_metrics_that_take_long_to_write_hold_up_nothing_else() -> None:
    began, asked = threading.Event(), threading.Event()

    class Slow(Metric):
        @property
        def samples(self) -> list[Sample]:
            began.set()
            assert asked.wait(20)
            return []

        @samples.setter
        def samples(self, _: list[Sample]) -> None: ...

    class Collecting(Collector):
        def collect(self) -> Iterable[Metric]:
            return [Slow("slow", "Slow.", "gauge")]

        def describe(self) -> Iterable[Metric]:
            return []

    registry = CollectorRegistry()
    registry.register(Collecting())
    async with (
        health_server("127.0.0.1", 0, registry, list) as port,
        asyncio.TaskGroup() as tasks,
    ):
        metrics = tasks.create_task(_get(port, "/metrics"))
        assert await asyncio.to_thread(began.wait, 20)
        assert await _get(port, "/healthz") == (200, "ok\n")
        asked.set()
        assert (await metrics)[0] == 200


async def test_nothing_else_is_reported() -> None:
    async with health_server("127.0.0.1", 0, CollectorRegistry(), list) as port:
        assert (await _get(port, "/"))[0] == 404
        assert (await _get(port, "/../../etc/passwd"))[0] == 404


async def test_port_is_free_again_after_the_block() -> None:
    async with health_server("127.0.0.1", 0, CollectorRegistry(), list) as port:
        pass
    async with health_server("127.0.0.1", port, CollectorRegistry(), list) as again:
        assert again == port


async def test_address_in_use_is_said_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HealthError) as caught:
            async with health_server("127.0.0.1", port, CollectorRegistry(), list):
                pass
    said = str(caught.value)
    assert "Address already in use" in said
    assert said.count("127.0.0.1") == 1


@pytest.mark.parametrize("host", ["192.0.2.1", "name.invalid"])
async def test_address_that_is_not_here_is_said(host: str) -> None:
    with pytest.raises(HealthError, match=f"on {host} port 1: [A-Z]"):
        async with health_server(host, 1, CollectorRegistry(), list):
            pass
