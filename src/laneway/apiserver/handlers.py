"""The resource endpoints: from a request to a verb, and from its outcome to an answer."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from laneway.apiserver import address, listing, negotiation, patch, selectors, tables, watch
from laneway.apiserver.deletion import DeleteOptions
from laneway.apiserver.errors import ApiError, NotFound
from laneway.apiserver.events import as_object, in_version
from laneway.apiserver.objects import Options, Outcome
from laneway.apiserver.resources import STATUS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laneway.apiserver.address import Address
    from laneway.apiserver.deletion import Deletion
    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.negotiation import Form
    from laneway.apiserver.registry import Registry
    from laneway.apiserver.resources import Resources
    from laneway.apiserver.store import Store

GZIP_FROM = 128 * 1024
"""Smaller answers are sent as they are."""

YIELD_EVERY = 50
"""Deletions of a collection between which others have a turn, watchers above all."""

_VALIDATION = ("Strict", "Warn", "Ignore")


class Handlers:
    """Serves everything below `/api/v1/` and `/apis/GROUP/VERSION/`."""

    def __init__(
        self, store: Store, registry: Registry, resources: Resources, deletion: Deletion
    ) -> None:
        self._store = store
        self._registry = registry
        self._resources = resources
        self._deletion = deletion

    async def serve(self, request: web.Request) -> web.StreamResponse:
        match = request.match_info
        where = address.parse(match.get("group", ""), match["version"], match["rest"])
        kind = where and self._registry.find(where.group, where.version, where.plural)
        if where is None or kind is None or not _fits(kind, where):
            raise no_such_path()
        if where.name:
            return await self._one(request, kind, where)
        return await self._many(request, kind, where)

    async def _many(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        match request.method:
            case "GET" | "HEAD":
                if _flag(request.query, "watch"):
                    return await self._watch(request, kind, where)
                return await self._list(request, kind, where)
            case "POST" if where.namespace or not kind.namespaced:
                form = negotiation.form(request.headers.get("Accept", ""))
                options = _options(request.query)
                body = await _object(request)
                made = self._resources.create(kind, where.namespace, body, options)
                return self._written(kind, made, form, status=201)
            case "DELETE" if where.namespace or not kind.namespaced:
                return await self._delete_many(request, kind, where)
        raise not_allowed()

    async def _one(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        form = negotiation.form(request.headers.get("Accept", ""))
        match request.method:
            case "GET" | "HEAD":
                if _flag(request.query, "watch"):
                    return await self._watch(request, kind, where)
                stored = self._resources.get(kind, where.namespace, where.name)
                body = in_version(stored.body, kind.api_version)
                include = request.query.get("includeObject", "Metadata")
                return web.Response(
                    body=_shaped(kind, body, form, include), content_type=form.media_type
                )
            case "PUT":
                return await self._replace(request, kind, where, form)
            case "PATCH":
                return await self._patch(request, kind, where, form)
            case "DELETE" if not where.subresource:
                return await self._delete(request, kind, where, form)
        raise not_allowed()

    async def _replace(
        self, request: web.Request, kind: Kind, where: Address, form: Form
    ) -> web.Response:
        options = _options(request.query)
        body = await _object(request)
        done = self._resources.update(
            kind,
            where.namespace,
            where.name,
            lambda _: body,
            options,
            subresource=where.subresource,
            unconditional=not kind.custom,
        )
        return self._written(kind, done, form)

    async def _patch(
        self, request: web.Request, kind: Kind, where: Address, form: Form
    ) -> web.Response:
        media_type = request.content_type
        if media_type not in patch.accepted(kind):
            raise negotiation.unsupported(patch.accepted(kind))
        options = _options(request.query)
        change = negotiation.decode(await request.read(), negotiation.JSON)
        done = self._resources.update(
            kind,
            where.namespace,
            where.name,
            lambda old: patch.apply(media_type, old, change),
            options,
            subresource=where.subresource,
        )
        return self._written(kind, done, form)

    async def _delete(
        self, request: web.Request, kind: Kind, where: Address, form: Form
    ) -> web.Response:
        options = await _delete_options(request)
        done = self._deletion.delete(kind, where.namespace, where.name, options)
        if not done.gone:
            body = in_version(done.body, kind.api_version)
            return web.Response(body=_shaped(kind, body, form), content_type=form.media_type)
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": where.name,
                **({"group": kind.group} if kind.group else {}),
                "kind": kind.plural,
                "uid": done.uid,
            },
        }
        return web.Response(
            body=negotiation.encode(status, form.media_type), content_type=form.media_type
        )

    async def _delete_many(
        self, request: web.Request, kind: Kind, where: Address
    ) -> web.StreamResponse:
        form = negotiation.form(request.headers.get("Accept", ""))
        options = await _delete_options(request)
        found = listing.page(self._store, kind, self._query(request.query, kind, where))
        for number, body in enumerate(found.bodies):
            meta = as_object(body)["metadata"]
            with contextlib.suppress(NotFound):  # gone with its owner
                self._deletion.delete(kind, meta.get("namespace", ""), meta["name"], options)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return await _big(request, listing.render(kind, found, form, "Metadata"), form)

    async def _list(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        form = negotiation.form(request.headers.get("Accept", ""))
        query = request.query
        found = listing.page(self._store, kind, self._query(query, kind, where))
        include = query.get("includeObject", "Metadata")
        return await _big(request, listing.render(kind, found, form, include), form)

    async def _watch(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        query = request.query
        since = query.get("resourceVersion", "")
        _number(query, "resourceVersion")
        options = watch.WatchOptions(
            since=since,
            bookmarks=_flag(query, "allowWatchBookmarks"),
            initial_events=_flag(query, "sendInitialEvents"),
            timeout=float(_number(query, "timeoutSeconds")) or None,
            shape=negotiation.form(request.headers.get("Accept", "")).shape,
            include=query.get("includeObject", "Metadata"),
        )
        selected = self._query(query, kind, where)
        return await watch.serve(request, self._store, kind, selected, options)

    def _query(self, query: Mapping[str, str], kind: Kind, where: Address) -> listing.Query:
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
            limit=_number(query, "limit"),
            token=query.get("continue", ""),
            at=self._moment(query),
        )

    def _moment(self, query: Mapping[str, str]) -> int | None:
        """The resourceVersion a list must show exactly; one that is to come cannot be shown."""
        if _flag(query, "watch"):
            return None
        wanted = _number(query, "resourceVersion")
        if wanted > self._store.rv:
            text = f"Too large resource version: {wanted}, current: {self._store.rv}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise ApiError(504, "Timeout", text, causes=[cause], retryAfterSeconds=1)
        return wanted if query.get("resourceVersionMatch") == "Exact" else None

    def _written(
        self, kind: Kind, outcome: Outcome, form: Form, *, status: int = 200
    ) -> web.Response:
        body = _shaped(kind, in_version(outcome.body, kind.api_version), form)
        response = web.Response(body=body, status=status, content_type=form.media_type)
        for text in outcome.warnings:
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text)


def _fits(kind: Kind, where: Address) -> bool:
    """Whether the path has the parts that this kind's paths have."""
    if where.namespace and not kind.namespaced:
        return False
    if where.name and kind.namespaced and not where.namespace:
        return False
    return not where.subresource or (where.subresource == STATUS and kind.has_status)


def _shaped(kind: Kind, body: bytes, form: Form, include: str = "Metadata") -> bytes:
    if form == negotiation.Form():
        return body
    obj: dict[str, Any] = as_object(body)
    if form.shape == "table":
        rv = obj["metadata"].get("resourceVersion", "")
        table = tables.render(kind, [obj], include_object=include)
        obj = {**table, "metadata": {"resourceVersion": rv}}
    elif form.shape == "metadata":
        obj = listing.PARTIAL | {"metadata": obj["metadata"]}
    return negotiation.encode(obj, form.media_type)


async def _big(request: web.Request, body: bytes, form: Form) -> web.Response:
    response = web.Response(content_type=form.media_type)
    if len(body) >= GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        # Off the event loop: a list of 10,000 objects takes a tenth of a second.
        body = await asyncio.to_thread(gzip.compress, body, 1)
        response.headers["Content-Encoding"] = "gzip"
    response.body = body
    return response


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "t", "true")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ApiError(400, "BadRequest", f'{name}: invalid value "{text}": must be a number')
    return int(text)


def _dry_run(values: list[str]) -> bool:
    if any(value != "All" for value in values):
        raise ApiError(400, "BadRequest", 'dryRun: the only supported value is "All"')
    return bool(values)


def _options(query: Any) -> Options:
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


async def _object(request: web.Request) -> dict[str, Any]:
    value = await _decoded(request)
    if not isinstance(value, dict):
        raise ApiError(400, "BadRequest", "the body of the request must be an object")
    return value


async def _delete_options(request: web.Request) -> DeleteOptions:
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
