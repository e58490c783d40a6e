"""Following the configurations in the store, and the time that a request has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kapilite.admission.attributes import Attributes, Refused
from kapilite.admission.configuration import MUTATING, VALIDATING
from kapilite.admission.dispatch import Admission
from kapilite.authn import User
from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.registry import Registry
from kapilite.storage.events import Key
from kapilite.storage.store import Store

RESOURCES = {"mutating": MUTATING, "validating": VALIDATING}


class Server:
    """A store and the admission on it."""

    def __init__(self, path: str) -> None:
        self.store = Store(path)
        self.registry = Registry(self.store)
        self.admission = Admission(self.store, self.registry)

    @property
    def configmaps(self) -> Kind:
        kind = self.registry.find("", "v1", "configmaps")
        assert kind is not None
        return kind

    def configure(self, kind: str, *operations: str, **fields: Any) -> Key:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": list(operations),
            "resources": ["configmaps"],
        }
        webhook = {
            "name": "h.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1"},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }
        key = Key(RESOURCES[kind], "", "x")
        obj = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "X",
            "metadata": {"name": key.name},
            "webhooks": [webhook],
        }
        self.store.commit("ADDED", key, obj, None)
        return key

    def write(self, **fields: Any) -> Attributes:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        more = {"object": obj, "namespace": "default", "user": User("u")} | fields
        return Attributes(operation="CREATE", kind=self.configmaps, name="x", **more)

    async def stop(self) -> None:
        await self.admission.stop()
        self.store.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    found = Server(str(tmp_path / "state.db"))
    yield found
    await found.stop()


@pytest.mark.parametrize("kind", RESOURCES)
def test_what_concerns_whom(server: Server, kind: str) -> None:
    concerns = server.admission.concerns
    assert not concerns(server.configmaps, "CREATE")
    key = server.configure(kind, "CREATE")
    assert concerns(server.configmaps, "CREATE")
    assert not concerns(server.configmaps, "UPDATE")
    assert not concerns(server.configmaps, "CREATE", "status")
    stored = server.store.get(key)
    assert stored is not None
    server.store.commit("DELETED", key, {"apiVersion": "v1", "kind": "X", "metadata": {}}, stored)
    assert not concerns(server.configmaps, "CREATE")


async def test_configurations_outlive_the_server(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    first = Server(path)
    first.configure("validating", "DELETE")
    await first.stop()
    second = Server(path)
    assert second.admission.concerns(second.configmaps, "DELETE")
    await second.stop()


async def test_a_write_that_no_webhook_wants(server: Server) -> None:
    server.configure("mutating", "UPDATE")
    server.configure("validating", "UPDATE")
    write = server.write()
    assert await server.admission.mutate(write) == (write.object, ())
    assert await server.admission.validate(write) == ()


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_the_time_of_the_whole_request(server: Server, policy: str) -> None:
    """Once it is over no webhook is asked, and no failure policy helps."""
    for kind in RESOURCES:
        server.configure(kind, "CREATE", failurePolicy=policy)
    late = server.write(deadline=asyncio.get_running_loop().time())
    for ask in (server.admission.mutate, server.admission.validate):
        with pytest.raises(Refused) as caught:
            await ask(late)
        status = caught.value.status()
        assert (status["code"], status["reason"]) == (504, "Timeout")
        text = "Timeout: request did not complete within requested timeout"
        assert status["message"] == text


async def test_a_failure_says_how_long_was_left(server: Server) -> None:
    server.configure("validating", "CREATE", timeoutSeconds=30)
    soon = server.write(deadline=asyncio.get_running_loop().time() + 4.5)
    with pytest.raises(Refused, match=r"timeout=5s.*connection refused"):
        await server.admission.validate(soon)


async def test_a_namespace_that_is_gone(server: Server) -> None:
    selector = {"matchLabels": {"a": "b"}}
    server.configure("validating", "CREATE", namespaceSelector=selector)
    with pytest.raises(Exception, match='namespaces "nowhere" not found'):
        await server.admission.validate(server.write(namespace="nowhere"))


def conditions(*expressions: str) -> list[dict[str, str]]:
    return [{"name": f"c{at}", "expression": text} for at, text in enumerate(expressions)]


@pytest.mark.parametrize("kind", RESOURCES)
async def test_match_conditions_spare_the_webhook(server: Server, kind: str) -> None:
    """No server listens there, so every call would be refused."""
    mine = "request.userInfo.username != 'u'"
    for texts in ((mine,), ("object.nosuch", mine), ("has(object.data)",), ("oldObject != null",)):
        server.configure(kind, "CREATE", matchConditions=conditions(*texts))
        ask = server.admission.mutate if kind == "mutating" else server.admission.validate

        await ask(server.write())


@pytest.mark.parametrize("kind", RESOURCES)
async def test_a_webhook_is_asked_where_all_its_conditions_hold(server: Server, kind: str) -> None:
    texts = ("request.operation == 'CREATE'", "object.metadata.name == 'x'")
    server.configure(kind, "CREATE", matchConditions=conditions(*texts))
    ask = server.admission.mutate if kind == "mutating" else server.admission.validate

    with pytest.raises(Refused, match="failed calling webhook"):
        await ask(server.write())


@pytest.mark.parametrize("kind", RESOURCES)
async def test_a_condition_that_ends_in_an_error(server: Server, kind: str) -> None:
    ask = server.admission.mutate if kind == "mutating" else server.admission.validate
    server.configure(kind, "CREATE", matchConditions=conditions("object.nosuch.x"))

    with pytest.raises(ApiError, match='configmaps "x" is forbidden: expression') as caught:
        await ask(server.write())

    assert caught.value.code == 403
    server.configure(
        kind, "CREATE", matchConditions=conditions("object.nosuch.x"), failurePolicy="Ignore"
    )
    await ask(server.write())
