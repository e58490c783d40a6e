"""Requests to the API server, typed by resource.

Lists and watches give their objects undecoded: the caller that collects them decides what a bad one
means. Failures are the exceptions of `errors`, and nothing else.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from laneway.kube.auth import Credentials, credentials_for
from laneway.kube.cluster import ClusterConfig
from laneway.kube.connection import CONNECT_DELAYS, JSON, MAX_WAITS, Connection, Request
from laneway.kube.errors import UndecodableError
from laneway.kube.resource import Resource, T
from laneway.kube.stream import WatchEvent, event, lines
from laneway.kube.transport import keep_alive

PAGE = 500
READ_GRACE = 30.0
"""How much longer than the server's own limit a silent watch is waited for."""

Propagation = Literal["Background", "Foreground", "Orphan"]
Body = Mapping[str, Any] | msgspec.Struct | Sequence[Mapping[str, Any]]


class PatchType(StrEnum):
    """How the body of a patch is to be read."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Page(msgspec.Struct, frozen=True):
    """A part of a list; the items are not decoded, so that a bad one cannot hide the others."""

    items: list[msgspec.Raw]
    resource_version: str


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode


class Client:
    """One API server, used as an async context manager."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        credentials: Credentials | None = None,
        user_agent: str = "laneway",
        request_seconds: float = 30.0,
        answer_bytes: int | None = None,
        connect_delays: Sequence[float] = CONNECT_DELAYS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`answer_bytes`: of a server that may mean harm, how much of an answer is read at most.

        `connect_delays`: the waits before a GET that could not connect is repeated.

        Raises ConfigError when the certificates of the configuration are of no use.
        """
        self._waits = MAX_WAITS
        self._connection = Connection(
            config.cluster,
            credentials or credentials_for(config),
            user_agent=user_agent,
            request_seconds=request_seconds,
            answer_bytes=answer_bytes,
            connect_delays=connect_delays,
            sleep=sleep,
        )

    async def __aenter__(self) -> Self:
        self._connection.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._connection.close()

    def unwaiting(self) -> Self:
        """The same client, for callers with a deadline: what is put off is raised at once."""
        same = copy.copy(self)
        same._waits = 0  # noqa: SLF001 - of our own kind
        return same

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object. Raises NotFoundError."""
        body = await self.call("GET", resource.path(namespace, name))
        return self._decode(resource, body)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[Page, None]:
        """All objects, page by page; `limit` 0 requests one page.

        Raises GoneError when the server has given up the list before its end was reached.
        """
        params = _selectors(label_selector, field_selector)
        if limit:
            params["limit"] = str(limit)
        while True:
            body = await self.call("GET", resource.path(namespace), params)
            try:
                page = _decode_list(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise UndecodableError(f"{resource}: the answer is not a list: {error}") from None
            yield Page(page.items or [], page.metadata.resource_version)
            if not page.metadata.continue_:
                return
            params["continue"] = page.metadata.continue_

    async def create(
        self,
        resource: Resource[T],
        body: Body,
        namespace: str = "",
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Make an object. Raises AlreadyExistsError, InvalidError."""
        params = _write_options(field_manager, dry_run)
        answer = await self.call("POST", resource.path(namespace), params, body)
        return self._decode(resource, answer)

    async def act(
        self,
        resource: Resource[T],
        name: str,
        action: str,
        body: Body,
        namespace: str = "",
    ) -> None:
        """Post to a subresource that does something, such as `binding`; the answer is not read.

        Raises NotFoundError, ConflictError.
        """
        await self.call("POST", resource.path(namespace, name, action), None, body)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Body,
        namespace: str = "",
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Change an object. Raises NotFoundError, ConflictError, InvalidError."""
        params = _write_options(field_manager, dry_run)
        if force:
            params["force"] = "true"
        path = resource.path(namespace, name, subresource)
        answer = await self.call("PATCH", path, params, body, patch_type)
        return self._decode(resource, answer)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object, if it still is the one that is meant.

        A pod on a node goes for good only with `grace_seconds` 0, which its kubelet says once
        nothing of it runs. Raises NotFoundError, and ConflictError when `uid` or
        `resource_version` differ.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if given := {key: value for key, value in preconditions.items() if value}:
            options["preconditions"] = given
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        await self.call("DELETE", resource.path(namespace, name), None, options)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        server_seconds: int = 300,
        read_seconds: float | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes since a version, until the server ends the answer.

        Raises GoneError when that version is too old, UnreachableError when the answer is cut off
        or nothing comes for `read_seconds`.
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(server_seconds),
        }
        request = Request(
            "GET",
            resource.path(namespace),
            params,
            read_seconds=server_seconds + READ_GRACE if read_seconds is None else read_seconds,
        )
        async with self._connection.answer(request) as response:
            keep_alive(response)
            async for line in lines(response.content.iter_any()):
                yield event(line)

    async def raw(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body of a GET, such as /version or /readyz."""
        return await self.call("GET", path, params)

    @staticmethod
    def _decode(resource: Resource[T], body: bytes) -> T:
        try:
            return resource.decode(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise UndecodableError(f"{resource}: cannot be read: {error}") from None

    async def call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """The body of an answer; all requests but watches come through here."""
        data = None if body is None else msgspec.json.encode(body)
        request = Request(method, path, params or {}, data, content_type, waits=self._waits)
        return await self._connection.body(request)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    params = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in params.items() if value}


def _write_options(field_manager: str, dry_run: bool) -> dict[str, str]:
    params = {"fieldManager": field_manager, "dryRun": "All" if dry_run else ""}
    return {key: value for key, value in params.items() if value}
