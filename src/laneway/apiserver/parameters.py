"""What a request asks for besides its address: its query parameters and its body.

Whatever cannot be understood is a 400 that names the parameter, never a guess.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.apiserver import listing, negotiation, selectors, watch
from laneway.apiserver.deletion import DeleteOptions
from laneway.apiserver.errors import ApiError
from laneway.apiserver.objects import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web
    from multidict import MultiMapping

    from laneway.apiserver.address import Address
    from laneway.apiserver.kinds import Kind

_VALIDATION = ("Strict", "Warn", "Ignore")


def flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "t", "true")


def number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ApiError(400, "BadRequest", f'{name}: invalid value "{text}": must be a number')
    return int(text)


def list_query(
    query: Mapping[str, str], kind: Kind, where: Address, *, latest: int
) -> listing.Query:
    """Which objects to list or to watch; `latest` is the resourceVersion of now."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if where.name:
        fields = f"metadata.name={where.name}" + (f",{fields}" if fields else "")
    tests: list[Callable[[dict[str, Any]], bool]] = []
    if labels:
        tests.append(selectors.parse_labels(labels))
    if fields:
        tests.append(selectors.parse_fields(fields, selectors.supported_fields(kind)))
    return listing.Query(
        namespace=where.namespace if kind.namespaced and where.namespace else None,
        selector=(lambda obj: all(test(obj) for test in tests)) if tests else None,
        limit=number(query, "limit"),
        token=query.get("continue", ""),
        at=_moment(query, latest),
    )


def _moment(query: Mapping[str, str], latest: int) -> int | None:
    """The resourceVersion a list must show exactly; one that is to come cannot be shown."""
    if flag(query, "watch"):
        return None
    wanted = number(query, "resourceVersion")
    if wanted > latest:
        text = f"Too large resource version: {wanted}, current: {latest}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        raise ApiError(504, "Timeout", text, causes=[cause], retryAfterSeconds=1)
    return wanted if query.get("resourceVersionMatch") == "Exact" else None


def watch_options(request: web.Request) -> watch.WatchOptions:
    """How to stream the changes, and since when."""
    query = request.query
    number(query, "resourceVersion")
    return watch.WatchOptions(
        since=query.get("resourceVersion", ""),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=flag(query, "sendInitialEvents"),
        timeout=float(number(query, "timeoutSeconds")) or None,
        shape=negotiation.form(request.headers.get("Accept", "")).shape,
        include=query.get("includeObject", "Metadata"),
    )


def _dry_run(values: list[str]) -> bool:
    if any(value != "All" for value in values):
        raise ApiError(400, "BadRequest", 'dryRun: the only supported value is "All"')
    return bool(values)


def write_options(query: MultiMapping[str]) -> Options:
    level = query.get("fieldValidation") or "Warn"
    if level not in _VALIDATION:
        text = f'fieldValidation: Unsupported value: "{level}": supported values: {_VALIDATION}'
        raise ApiError(400, "BadRequest", text)
    return Options(dry_run=_dry_run(query.getall("dryRun", [])), field_validation=level)


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")


class _DeleteBody(msgspec.Struct, rename="camel"):
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None
    preconditions: _Preconditions | None = None


async def _decoded(request: web.Request) -> Any:
    body, media_type = await request.read(), request.headers.get("Content-Type", "")
    if "yaml" in media_type:
        # 100 KB of YAML take Python a third of a second: not on the event loop.
        return await asyncio.to_thread(negotiation.decode, body, media_type)
    return negotiation.decode(body, media_type)


async def body_object(request: web.Request) -> dict[str, Any]:
    """The object that a client sent."""
    value = await _decoded(request)
    if not isinstance(value, dict):
        raise ApiError(400, "BadRequest", "the body of the request must be an object")
    return value


async def delete_options(request: web.Request) -> DeleteOptions:
    """From the body, the query, or both."""
    decoded = await _decoded(request) if await request.read() else {}
    try:
        sent = msgspec.convert(decoded, _DeleteBody)
    except msgspec.ValidationError as error:
        raise ApiError(400, "BadRequest", f"DeleteOptions: {error}") from error
    query = request.query
    policy = query.get("propagationPolicy") or sent.propagation_policy or ""
    if policy not in ("", "Background", "Foreground", "Orphan"):
        text = f'propagationPolicy: Unsupported value: "{policy}"'
        raise ApiError(422, "Invalid", text)
    before = sent.preconditions or _Preconditions()
    return DeleteOptions(
        dry_run=_dry_run([*query.getall("dryRun", []), *(sent.dry_run or ())]),
        orphan=policy == "Orphan" or bool(sent.orphan_dependents),
        uid=before.uid or "",
        resource_version=before.resource_version or "",
    )
