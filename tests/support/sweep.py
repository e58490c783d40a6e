"""What contract tests leave on a real server: their namespaces go after the last test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource
from support.kube import LEFT, REAL


@pytest.fixture(scope="session", autouse=True)
def sweep() -> Iterator[None]:
    """Delete what the tests left, once nobody waits for the server any more."""
    yield
    if REAL and LEFT:
        asyncio.run(_delete(LEFT))


async def _delete(names: list[str]) -> None:
    namespaces: Resource[Any] = Resource("", "v1", "namespaces", namespaced=False, type=dict)
    async with Client(load(os.environ["KUBECONFIG"])) as client:
        for name in names:
            with suppress(NotFoundError):
                await client.delete(namespaces, name)
