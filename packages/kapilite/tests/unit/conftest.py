"""A running API server with one custom resource, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from kapilite.server import ApiServer

WIDGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.lab.example.com"},
    "spec": {
        "group": "lab.example.com",
        "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 1, "minimum": 0},
                                    "color": {"type": "string", "enum": ["red", "blue"]},
                                    "serial": {
                                        "type": "string",
                                        "x-kubernetes-validations": [
                                            {
                                                "rule": "self == oldSelf",
                                                "message": "serial is immutable",
                                            }
                                        ],
                                    },
                                    "note": {"type": "string", "nullable": True},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/lab.example.com/v1/namespaces/default/widgets"


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Any


class Api:
    """Requests to one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> Reply:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": content_type} if data is not None else {}
        async with self.session.request(
            method,
            self.url + path,
            data=data,
            headers=sent | (headers or {}),
            params={name: str(value) for name, value in params.items()},
        ) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json"
            return Reply(response.status, json.loads(raw) if is_json else raw, response.headers)

    async def patch(self, path: str, body: Any, kind: str = "merge-patch", **params: Any) -> Reply:
        return await self("PATCH", path, body, content_type=f"application/{kind}+json", **params)

    @asynccontextmanager
    async def watch(
        self, path: str, headers: dict[str, str] | None = None, **params: Any
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async def events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
            async for line in response.content:
                yield json.loads(line)

        async with self.session.get(
            self.url + path,
            headers=headers,
            params={"watch": "true"} | {name: str(value) for name, value in params.items()},
        ) as response:
            assert response.status == 200, await response.text()
            yield events(response)


def widget(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "lab.example.com/v1", "kind": "Widget", "metadata": meta, "spec": spec}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(str(tmp_path / "state.db"), history=200)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as session:
        yield Api(session, server.url)


@pytest.fixture
async def widgets(api: Api) -> str:
    """The path of the widgets in the namespace default."""
    assert (await api("POST", CRDS, WIDGET_CRD)).status == 201
    return WIDGETS


@pytest.fixture
def make_widget() -> Any:
    return widget


@pytest.fixture
def widget_crd() -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(WIDGET_CRD))
    return copy
