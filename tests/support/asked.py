"""A request to an API server, as Kubernetes reads it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
WRITES = frozenset(_VERBS.values())


@dataclass(eq=False)
class Asked:
    """A request, and what became of it."""

    verb: str
    group: str
    resource: str
    name: str
    subresource: str
    body: bytes
    query: dict[str, str]
    status: int = 0
    """What the server answered; 0: it has not been asked, or has not answered yet."""
    not_before: float = 0.0
    """When the client may ask the same again by the server's word, in the event loop's time."""
    at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """When it was asked."""
    answered: bool = True
    """Whether the client got the answer, as far as is known."""
    ended: float = math.inf
    """When the answer had been sent, in the event loop's time."""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def write(self) -> tuple[str, str, str, str, str, bytes]:
        """What it writes; two that are the same write something twice."""
        return *self.where, self.body

    @property
    def what(self) -> tuple[str, ...]:
        """What is asked, whenever that is. Each object that is made is another."""
        which = self.query.get("labelSelector", "") + self.query.get("fieldSelector", "")
        made = self.json["metadata"]["name"] if self.verb == "create" else ""
        return *self.where, which, made

    @property
    def where(self) -> tuple[str, str, str, str, str]:
        return self.verb, self.group, self.resource, self.name, self.subresource


def read(request: web.Request, body: bytes) -> Asked:
    """What a request is to Kubernetes."""
    parts = [unquote(part) for part in request.raw_path.partition("?")[0].split("/") if part]
    if parts[:2] == ["k8s", "clusters"]:  # Rancher's proxy: before the path comes which cluster.
        parts = parts[3:]
    group = parts[1] if parts[:1] == ["apis"] else ""
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource, name, subresource, *_ = [*parts, "", "", ""]
    verb = _VERBS.get(request.method, "get" if name else "list")
    if "watch" in request.query:
        verb = "watch"
    return Asked(verb, group, resource, name, subresource, body, dict(request.query))
