"""Owners and dependents for tests, and waiting for what follows from a deletion."""

from __future__ import annotations

import asyncio
from typing import Any

from kapilite.server import ApiServer

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def owned_by(name: str, *owners: Any) -> dict[str, Any]:
    refs = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": refs}}


async def exists(api: Any, path: str) -> bool:
    return bool((await api("GET", path)).status == 200)


async def gone(api: Any, path: str) -> None:
    """Wait until what follows from a deletion has removed this."""
    async with asyncio.timeout(10):
        while await exists(api, path):  # noqa: ASYNC110 - a request is the event
            await asyncio.sleep(0)


async def quiet(server: ApiServer) -> None:
    """Wait until nothing is left that follows from a change."""
    assert server._store is not None
    async with asyncio.timeout(30):
        while server._store.work():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


def blocking(body: dict[str, Any]) -> dict[str, Any]:
    for ref in body["metadata"]["ownerReferences"]:
        ref["blockOwnerDeletion"] = True
    return body


async def make(api: Any, name: str, *owners: Any, finalizers: Any = ()) -> Any:
    body = blocking(owned_by(name, *owners))
    body["metadata"]["finalizers"] = list(finalizers)
    reply = await api("POST", CONFIGMAPS, body)
    assert reply.status == 201
    return reply.body
