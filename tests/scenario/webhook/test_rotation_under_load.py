"""The certificate changes, and replicas come and go, while the API server asks without a pause."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kubebasics.serving import listening
from laneway.admission import tls
from laneway.api import VGPULayout
from laneway.controllers.cluster.certificates import (
    CONFIGURATIONS,
    SECRET,
    SECRETS,
    WebhookCertificates,
)
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.core.certificates import rotation
from laneway.core.certificates.rotation import DROP, SETTLE
from laneway.core.certificates.secret import parsed
from laneway.kube.errors import KubeError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import served
from laneway.roles.install import install_namespace
from laneway.roles.manager import NAMESPACE
from support.examples import first
from support.replicas import HOOKS, Replica, Switch, bundles, configure, secret_data
from support.reviewing import review

SECONDS = 60.0
LAYOUTS = served(VGPULayout)
TURN = timedelta(days=20)
"""How often the certificate changes here. All that is made in a test must be valid today, for
OpenSSL looks at the real clock."""

pytestmark = pytest.mark.timeout(300)  # many steps, each waited for, while others load the machine


class Clock:
    """The manager's; it starts in the past."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC) - 4 * TURN

    def __call__(self) -> datetime:
        return self.now


class Load:
    """Writes that a webhook with failure policy Fail must allow, one after another."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.written = 0
        self.missed: list[str] = []

    async def run(self, name: str) -> None:
        while True:
            body = {
                "apiVersion": LAYOUTS.api_version,
                "kind": "VGPULayout",
                "metadata": {"name": name},
                "spec": {"takeOver": True},
            }
            try:
                await self._client.create(LAYOUTS, body)
                await self._client.delete(LAYOUTS, name)
            except KubeError as error:
                self.missed.append(str(error))
                with contextlib.suppress(KubeError):
                    await self._client.delete(LAYOUTS, name)
            self.written += 2
            # Connections that are kept are of no interest for ever.
            await asyncio.sleep(0.002)

    async def more(self, writes: int = 25) -> None:
        """Wait for so many more."""
        end = self.written + writes
        async with asyncio.timeout(SECONDS):
            while self.written < end:  # noqa: ASYNC110 - a counter that others raise
                await asyncio.sleep(0.01)


class Stage:
    """A cluster with a manager's certificates, and replicas behind a Service."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.clock = Clock()
        self.replicas = [Replica(client, folder / name) for name in ("a", "b")]
        self.switch = Switch(self.replicas)
        self.load = Load(client)
        self.lead()

    def lead(self) -> None:
        """A manager comes to lead."""
        self.certificates = WebhookCertificates(
            self.client,
            NAMESPACE,
            ManagerMetrics(CollectorRegistry()),
            EventRecorder(self.client, "test"),
            clock=self.clock,
        )
        self.leading = asyncio.create_task(self.certificates.run())

    async def looked(self) -> None:
        """Wait until the leader knows what there is: from then on its time counts."""

        async def seen() -> bool:
            return self.certificates._seen is not None

        await self.until(seen)

    async def lose(self) -> None:
        """It does not lead any more."""
        self.leading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.leading

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(SECONDS):
            while not await holds():  # noqa: ASYNC110 - the API server is asked
                await asyncio.sleep(0.01)

    def pass_time(self, time: timedelta) -> None:
        self.clock.now += time
        self.certificates.ask(["certificate"])

    async def authorities(self, count: int) -> None:
        """Wait until every client trusts so many."""

        async def trusted() -> bool:
            found = await bundles(self.client)
            return all(len(parsed(one, self.clock.now)) == count for one in found)

        await self.until(trusted)

    async def other_than(self, certificate: bytes) -> None:
        """Wait until the Secret holds another certificate."""

        async def another() -> bool:
            held = (await secret_data(self.client)).get("tls.crt", certificate)
            return held != certificate

        await self.until(another)

    async def served_by_all(self) -> None:
        async def ready() -> bool:
            return all(replica.ready for replica in self.replicas)

        await self.until(ready)


@pytest.fixture
async def stage(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """Replicas that answer, and a load that has begun."""
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(rotation, "LIFE", 10 * TURN)
    monkeypatch.setattr(rotation, "RENEW_BEFORE", 9 * TURN)
    # Connections that are kept would hide what happens when one is made. Not a short time either:
    # that runs on a new connection as well, where a busy machine may need longer to ask.
    monkeypatch.setattr(listening, "KEEP_ALIVE_SECONDS", 0.0)
    folder = tmp_path / "replicas"
    folder.mkdir()
    client = cluster.client
    await install_namespace(client, NAMESPACE)
    stage = Stage(client, folder)
    await stage.switch.start()
    await configure(client, stage.switch.port)
    async with asyncio.TaskGroup() as tasks:
        running: list[asyncio.Task[None]] = []
        try:
            await stage.authorities(1)
            for replica in stage.replicas:
                await replica.mount()
                replica.start()
            await stage.served_by_all()
            running += [tasks.create_task(stage.load.run(f"layout-{n}")) for n in range(4)]
            await stage.load.more(20)
            yield stage
        finally:
            for task in running:
                task.cancel()
            await stage.lose()
            for replica in stage.replicas:
                await replica.stop()
            await stage.switch.stop()


async def test_certificates_change_and_no_request_is_missed(stage: Stage) -> None:
    first, second = stage.replicas
    before = first.certificate
    stage.pass_time(TURN)
    await stage.authorities(2)
    await stage.load.more()
    stage.pass_time(SETTLE)
    await stage.other_than(before)
    # Kubelets look each in its own time.
    await first.mount()
    await stage.load.more()
    await second.mount()
    await stage.load.more()
    stage.pass_time(DROP)
    await stage.authorities(1)
    await stage.load.more()
    assert first.certificate != before
    assert stage.load.missed == []
    assert stage.switch.made > 20


@pytest.mark.slow
async def test_leaders_change_between_the_steps_and_no_request_is_missed(stage: Stage) -> None:
    before = stage.replicas[0].certificate
    stage.pass_time(TURN)
    await stage.authorities(2)
    await stage.lose()
    stage.clock.now += 2 * DROP
    await stage.load.more()
    stage.lead()
    await stage.looked()
    assert (await secret_data(stage.client))["tls.crt"] == before
    stage.pass_time(SETTLE)
    await stage.other_than(before)
    await stage.lose()
    for replica in stage.replicas:
        await replica.mount()
    stage.clock.now += DROP
    stage.lead()
    await stage.looked()
    await stage.load.more()
    await stage.authorities(2)
    stage.pass_time(DROP)
    await stage.authorities(1)
    await stage.load.more()
    assert stage.load.missed == []


@pytest.mark.slow
@pytest.mark.parametrize("damage", first("deleted", "emptied", "another's key"))
async def test_a_secret_is_spoilt_and_no_request_is_missed(stage: Stage, damage: str) -> None:
    before = stage.replicas[0].certificate
    if damage == "deleted":
        await stage.client.delete(SECRETS, SECRET, NAMESPACE)
    else:
        value = None if damage == "emptied" else "bm8ga2V5"
        body = {"data": {"tls.key": value}}
        await stage.client.patch(SECRETS, SECRET, body, NAMESPACE)
    await stage.authorities(2)
    # Whatever the Secret holds by now, a kubelet brings it into the pods.
    for replica in stage.replicas:
        await replica.mount()
    await stage.load.more()
    stage.pass_time(SETTLE)
    await stage.until(lambda: _has_pair(stage, before))
    for replica in stage.replicas:
        await replica.mount()
    await stage.load.more()
    stage.pass_time(DROP)
    await stage.authorities(1)
    await stage.load.more()
    assert stage.load.missed == []


async def _has_pair(stage: Stage, before: bytes) -> bool:
    data = await secret_data(stage.client)
    return data.get("tls.crt", before) != before and bool(data.get("tls.key"))


async def test_a_removed_bundle_is_put_back(stage: Stage) -> None:
    before = await bundles(stage.client)
    kind, name = next(iter(CONFIGURATIONS.items()))
    operations = [{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}]
    await stage.client.patch(
        HOOKS[kind], name, operations, patch_type="application/json-patch+json"
    )

    async def whole() -> bool:
        return await bundles(stage.client) == before

    await stage.until(whole)


@pytest.mark.slow
async def test_what_cert_manager_keeps_is_left_alone(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    kind, name = next(iter(CONFIGURATIONS.items()))
    body = {"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}}
    await stage.client.patch(HOOKS[kind], name, body)
    before = await bundles(stage.client)
    stage.pass_time(TURN)

    async def other_told() -> bool:
        return (await bundles(stage.client))[-1] != before[-1]

    await stage.until(other_told)
    assert (await bundles(stage.client))[0] == before[0]
    assert "--webhook-certificates cert-manager" in caplog.text


@pytest.mark.slow
async def test_replicas_restart_and_no_request_is_missed(stage: Stage) -> None:
    for _ in range(2):
        for replica in stage.replicas:
            await replica.stop()
            await stage.load.more(30)
            replica.start()
            await stage.served_by_all()
            await stage.load.more(30)
    assert stage.load.missed == []


@pytest.mark.slow
async def test_only_plugins_that_know_the_cluster_are_asked(stage: Stage) -> None:
    first = stage.replicas[0]
    await first.stop()
    first.caches.missing = ["claims"]
    first.start()
    await stage.load.more()
    assert not first.ready
    assert first.webhook is not None
    assert not first.webhook.ready.is_set()
    first.caches.missing = []
    await stage.served_by_all()
    await stage.load.more()
    assert stage.load.missed == []
    assert first.webhook.ready.is_set()


@pytest.mark.slow
async def test_one_that_is_to_stop_asks_its_clients_to_connect_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "KEEP_ALIVE_SECONDS", 60.0)
    first = Replica(stage.client, stage.folder / "c", drain_seconds=SECONDS)
    await first.mount()
    first.start()
    stage.replicas.append(first)
    await stage.served_by_all()
    assert first.webhook is not None
    url = f"https://127.0.0.1:{first.webhook.port}/v1/webhook/validation"
    body = msgspec.json.encode(review("vgpulayouts", "DELETE", None, {"metadata": {"name": "a"}}))
    kind = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(headers=kind) as session:
        async with session.post(url, data=body, ssl=False) as answer:
            assert answer.status == 200
            assert "Connection" not in answer.headers
        stopping = asyncio.create_task(first.stop())
        await stage.until(lambda: _is_stopping(first))
        async with session.post(url, data=body, ssl=False) as answer:
            assert answer.status == 200
            assert answer.headers["Connection"] == "close"
    stage.replicas.remove(first)
    first.hurry()
    await stopping


async def _is_stopping(replica: Replica) -> bool:
    assert replica.webhook is not None
    return replica.webhook.waiting_for() == ["stopping"]
