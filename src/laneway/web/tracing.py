"""The writes of users as spans, each in the trace of what it made of its object.

A write has a span once it has succeeded: only its answer says which object it was, and which
generation of it. Those that the webhook refuses have one from there. Dry runs and writes that touch
no desired state have none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from laneway.core.tracing import DELETION, Span, Tracer, about, root
from laneway.kube.client import Body, Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.connection import JSON


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    generation: int = 0


class _Details(msgspec.Struct, frozen=True):
    uid: str = ""
    name: str = ""
    kind: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """An object, or what a deletion is answered with once nothing is left of one."""

    kind: str = ""
    metadata: _Meta = _Meta()
    details: _Details = _Details()


_decode = msgspec.json.Decoder(_Answer).decode
_VERBS = {"POST": "create", "PATCH": "change", "DELETE": "delete"}


def client_of(config: ClusterConfig, tracer: Tracer | None, **options: Any) -> Client:
    """A client of a user, whose writes are told if there is a tracer; `options`: of `Client`.

    Raises ConfigError.
    """
    return Client(config, **options) if tracer is None else _Traced(config, tracer, **options)


class _Traced(Client):
    def __init__(self, config: ClusterConfig, tracer: Tracer, **options: Any) -> None:
        super().__init__(config, **options)
        self._tracer = tracer

    async def call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = JSON,
    ) -> bytes:
        began = time.time_ns()
        answer = await super().call(method, path, params, body, content_type)
        if method in _VERBS and _is_write(method, params, body):
            self._tell(method, answer, began)
        return answer

    def _tell(self, method: str, answer: bytes, began: int) -> None:
        try:
            found = _decode(answer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        meta, details = found.metadata, found.details
        generation = DELETION if method == "DELETE" else meta.generation
        uid = meta.uid or details.uid
        if not uid or (generation == DELETION) != (method == "DELETE"):
            return
        kind = found.kind if meta.uid else details.kind
        attributes = about(kind, meta.name or details.name, uid, generation)
        if meta.namespace:
            attributes["k8s.namespace.name"] = meta.namespace
        above, name = root(uid, generation), f"{_VERBS[method]} {kind}"
        span = above.child(name, began)
        self._tracer(Span(span, above.span, name, began, time.time_ns(), attributes))


def _is_write(method: str, params: Mapping[str, str] | None, body: Body | None) -> bool:
    """Whether a request writes a desired state, or deletes one."""
    if (params or {}).get("dryRun"):
        return False
    if method == "PATCH":
        return _names_spec(body)
    return not (isinstance(body, Mapping) and body.get("dryRun"))


def _names_spec(body: Any) -> bool:
    if isinstance(body, Mapping):
        return "spec" in body
    if isinstance(body, msgspec.Struct):
        return hasattr(body, "spec")
    return any(str(one.get("path", "")).startswith("/spec") for one in body or ())
