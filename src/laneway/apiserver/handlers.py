"""The resource endpoints: from a request to a verb, and from its outcome to an answer."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from typing import TYPE_CHECKING, Any

from aiohttp import web

from laneway.apiserver import address, listing, negotiation, parameters, patch, tables, watch
from laneway.apiserver.errors import ApiError, NotFound
from laneway.apiserver.events import as_object, in_version
from laneway.apiserver.resources import STATUS

if TYPE_CHECKING:
    from laneway.apiserver.address import Address
    from laneway.apiserver.deletion import Deletion
    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.negotiation import Form
    from laneway.apiserver.objects import Outcome
    from laneway.apiserver.registry import Registry
    from laneway.apiserver.resources import Resources
    from laneway.apiserver.store import Store

GZIP_FROM = 128 * 1024
"""Smaller answers are sent as they are."""

YIELD_EVERY = 50
"""Deletions of a collection between which others have a turn, watchers above all."""


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
                if parameters.flag(request.query, "watch"):
                    return await self._watch(request, kind, where)
                return await self._list(request, kind, where)
            case "POST" if where.namespace or not kind.namespaced:
                form = negotiation.form(request.headers.get("Accept", ""))
                options = parameters.write_options(request.query)
                body = await parameters.body_object(request)
                made = self._resources.create(kind, where.namespace, body, options)
                return self._written(kind, made, form, status=201)
            case "DELETE" if where.namespace or not kind.namespaced:
                return await self._delete_many(request, kind, where)
        raise not_allowed()

    async def _one(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        form = negotiation.form(request.headers.get("Accept", ""))
        match request.method:
            case "GET" | "HEAD":
                if parameters.flag(request.query, "watch"):
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
        options = parameters.write_options(request.query)
        body = await parameters.body_object(request)
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
        options = parameters.write_options(request.query)
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
        options = await parameters.delete_options(request)
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
        options = await parameters.delete_options(request)
        found = listing.page(self._store, kind, self._query(request, kind, where))
        for number, body in enumerate(found.bodies):
            meta = as_object(body)["metadata"]
            with contextlib.suppress(NotFound):  # gone with its owner
                self._deletion.delete(kind, meta.get("namespace", ""), meta["name"], options)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return await _big(request, listing.render(kind, found, form, "Metadata"), form)

    async def _list(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        form = negotiation.form(request.headers.get("Accept", ""))
        found = listing.page(self._store, kind, self._query(request, kind, where))
        include = request.query.get("includeObject", "Metadata")
        return await _big(request, listing.render(kind, found, form, include), form)

    async def _watch(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        options = parameters.watch_options(request)
        selected = self._query(request, kind, where)
        return await watch.serve(request, self._store, kind, selected, options)

    def _query(self, request: web.Request, kind: Kind, where: Address) -> listing.Query:
        return parameters.list_query(request.query, kind, where, latest=self._store.rv)

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
