"""What a request has besides its address: its query parameters and its body.

Whatever cannot be understood is a 400 that names the parameter, never a guess.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite import problems
from kapilite.authn import SYSTEM, USER
from kapilite.deletion import options
from kapilite.encodings import negotiation
from kapilite.errors import ApiError
from kapilite.reads import listing, moments, selectors
from kapilite.writes.objects import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aiohttp import web

    from kapilite.address import Address
    from kapilite.deletion.options import DeleteOptions
    from kapilite.encodings.negotiation import Form
    from kapilite.kinds import Kind
    from kapilite.problems import Problem
    from kapilite.reads.selectors import FieldSelector, LabelSelector

_VALIDATION = ("Ignore", "Strict", "Warn")
_MANAGER_LIMIT = 128


def list_query(
    query: Mapping[str, str], kind: Kind, where: Address, *, latest: int
) -> listing.Query:
    """Which objects to list, and as of when; `latest` is the resourceVersion of now."""
    span = moments.span(query, latest)
    return msgspec.structs.replace(
        selection(query, kind, where), limit=span.limit, token=span.token, at=span.at
    )


def selection(query: Mapping[str, str], kind: Kind, where: Address) -> listing.Query:
    """Which objects to list or to watch."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    tests: list[LabelSelector | FieldSelector] = []
    if labels:
        tests.append(selectors.parse_labels(labels))
    if fields:
        supported = selectors.supported_fields(kind)
        plain = not kind.custom and supported == selectors.EVERYWHERE
        tests.append(selectors.parse_fields(fields, supported, plain=plain))
    return listing.Query(
        namespace=where.namespace if kind.namespaced and where.namespace else None,
        selector=(lambda obj: all(test(obj) for test in tests)) if tests else None,
        texts=tuple(text for test in tests for text in test.texts),
    )


_INCLUDED = ("Metadata", "Object", "None")


def included(query: Mapping[str, str], form: Form) -> str:
    """How much of an object a row of a table carries."""
    wanted = query.get("includeObject") or "Metadata"
    if form.shape == "table" and wanted not in _INCLUDED:
        why = f"Invalid value: {json.dumps(wanted)}: must be 'Metadata', 'Object', 'None', or empty"
        text = f"Unable to convert to Table as requested: includeObject: {why}"
        raise ApiError(400, "BadRequest", text)
    return wanted


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def write_options(request: web.Request) -> Options:
    """How to create, replace, patch or apply, and in whose name. Raises a 422."""
    query = request.query
    dry_run = query.getall("dryRun", [])
    level = query.get("fieldValidation") or "Warn"
    found = [
        *_dry_run_problems(dry_run),
        *_manager_problems(query.get("fieldManager", "")),
        *(_apply_problems(request) if request.method == "PATCH" else ()),
    ]
    if level not in _VALIDATION:
        found.append(problems.not_supported("fieldValidation", level, _VALIDATION))
    if found:
        raise problems.rejected_options(_OPTIONS[request.method], found)
    return Options(
        dry_run=bool(dry_run),
        field_validation=level,
        manager=query.get("fieldManager") or _first_word(request.headers.get("User-Agent", "")),
        force=moments.flag(query, "force"),
        user=request.get(USER, SYSTEM),
    )


def _apply_problems(request: web.Request) -> Iterator[Problem]:
    if request.content_type == negotiation.APPLY:
        if not request.query.get("fieldManager"):
            yield problems.required("fieldManager", "is required for apply patch")
    elif "force" in request.query:
        yield problems.forbidden("force", "may not be specified for non-apply patch")


def _dry_run_problems(values: list[str]) -> Iterator[Problem]:
    if values and set(values) != {"All"}:
        yield problems.not_supported("dryRun", values, ("All",))


def _manager_problems(name: str) -> Iterator[Problem]:
    if len(name) > _MANAGER_LIMIT:
        yield problems.too_long("fieldManager", _MANAGER_LIMIT)
    if not name.isprintable():
        text = "should only contain printable characters"
        yield problems.invalid("fieldManager", name, text)


def _first_word(user_agent: str) -> str:
    """A client that gives no name is known by its program's, as in `kubectl/v1.32.0`."""
    word = user_agent.partition("/")[0][:_MANAGER_LIMIT]
    return "".join(filter(str.isprintable, word)) or "unknown"


async def _decoded(request: web.Request, media_type: str = "") -> Any:
    body = await request.read()
    media_type = media_type or request.headers.get("Content-Type", "")
    if "yaml" in media_type or "protobuf" in media_type:
        # A third of a second for 100 KB of YAML, two for 3 MB of protobuf: not on the event loop.
        return await asyncio.to_thread(negotiation.decode, body, media_type)
    return negotiation.decode(body, media_type)


async def body_object(request: web.Request) -> dict[str, Any]:
    """The object that a client sent."""
    value = await _decoded(request)
    if value is None:
        return {}  # as Kubernetes reads it
    if not isinstance(value, dict):
        raise ApiError(400, "BadRequest", "the body of the request must be an object")
    return value


async def applied_object(request: web.Request) -> dict[str, Any]:
    """The object of an apply patch, which is YAML whatever it looks like."""
    value = await _decoded(request, _yaml_or_json(await request.read()))
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
