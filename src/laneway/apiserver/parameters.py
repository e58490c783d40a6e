"""What a request asks for besides its address: its query parameters and its body.

Whatever cannot be understood is a 400 that names the parameter, never a guess.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.apiserver import listing, negotiation, problems, selectors, watch
from laneway.apiserver.authn import SYSTEM, USER
from laneway.apiserver.deletion import options
from laneway.apiserver.errors import ApiError
from laneway.apiserver.objects import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web
    from multidict import MultiMapping

    from laneway.apiserver.address import Address
    from laneway.apiserver.deletion.options import DeleteOptions
    from laneway.apiserver.kinds import Kind

_VALIDATION = ("Strict", "Warn", "Ignore")
_MANAGER_LIMIT = 128


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


def write_options(request: web.Request, *, patching: bool = False) -> Options:
    """How to create, replace or patch, and in whose name."""
    query = request.query
    if "force" in query and patching:
        raise _options_invalid("PatchOptions", "force", "may not be specified for non-apply patch")
    return Options(
        dry_run=_dry_run(query.getall("dryRun", [])),
        field_validation=_field_validation(query),
        manager=_manager(query) or _first_word(request.headers.get("User-Agent", "")),
        user=request.get(USER, SYSTEM),
    )


def apply_options(request: web.Request) -> Options:
    """How to apply; whoever applies must give a name."""
    query = request.query
    manager = _manager(query)
    if not manager:
        text = "is required for apply patch"
        raise _options_invalid("PatchOptions", "fieldManager", text, required=True)
    written = write_options(request)
    return msgspec.structs.replace(written, manager=manager, force=flag(query, "force"))


def _field_validation(query: Mapping[str, str]) -> str:
    level = query.get("fieldValidation") or "Warn"
    if level not in _VALIDATION:
        problem = problems.not_supported("fieldValidation", level, ("Ignore", "Strict", "Warn"))
        raise problems.rejected_options("PatchOptions", [problem])
    return level


def _manager(query: Mapping[str, str]) -> str:
    name = query.get("fieldManager", "")
    if len(name) > _MANAGER_LIMIT:
        problem = problems.too_long("fieldManager", _MANAGER_LIMIT)
        raise problems.rejected_options("PatchOptions", [problem])
    if not name.isprintable():
        text = "should not contain any non-printable characters"
        raise _options_invalid("PatchOptions", "fieldManager", text)
    return name


def _first_word(user_agent: str) -> str:
    """A client that gives no name is known by its program's, as in `kubectl/v1.32.0`."""
    word = user_agent.partition("/")[0][:_MANAGER_LIMIT]
    return "".join(filter(str.isprintable, word)) or "unknown"


def _options_invalid(kind: str, field: str, text: str, *, required: bool = False) -> ApiError:
    make = problems.required if required else problems.forbidden
    return problems.rejected_options(kind, [make(field, text)])


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


async def applied_object(request: web.Request) -> dict[str, Any]:
    """The object of an apply patch, which is YAML whatever it looks like."""
    body = await request.read()
    value = await asyncio.to_thread(negotiation.decode, body, _yaml_or_json(body))
    if not isinstance(value, dict):
        raise ApiError(400, "BadRequest", "the applied configuration must be an object")
    return value


def _yaml_or_json(body: bytes) -> str:
    """JSON is YAML as well, and read a hundred times faster as what it is."""
    return negotiation.JSON if body.lstrip()[:1] == b"{" else negotiation.YAML


async def delete_options(request: web.Request) -> DeleteOptions:
    """From the body or, without one, from the query."""
    body = await _decoded(request) if await request.read() else None
    return options.parse(body, request.query)
