"""The resource endpoints: from a request to a verb, and from what is read to an answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from kapilite import address
from kapilite.authn import SYSTEM, USER
from kapilite.endpoints import answers, parameters
from kapilite.errors import ApiError, NotFound
from kapilite.reads import listing, moments, watch
from kapilite.storage.events import as_object, in_form
from kapilite.writes import subresources
from kapilite.writes.objects import not_found

if TYPE_CHECKING:
    from aiohttp import web

    from kapilite.address import Address
    from kapilite.endpoints.access import Access
    from kapilite.endpoints.actions import Actions
    from kapilite.endpoints.writing import Writing
    from kapilite.kinds import Kind
    from kapilite.registry import Registry
    from kapilite.storage.store import Store
    from kapilite.writes.removal import Removal
    from kapilite.writes.resources import Resources

YIELD_EVERY = 50
"""Deletions of a collection between which others have a turn, watchers above all."""


class Services(NamedTuple):
    """What requests are carried out by."""

    store: Store
    registry: Registry
    resources: Resources
    writing: Writing
    removal: Removal
    actions: Actions
    access: Access


class Handlers:
    """Serves everything below `/api/v1/` and `/apis/GROUP/VERSION/`."""

    def __init__(self, services: Services) -> None:
        self._to = services

    async def serve(self, request: web.Request) -> web.StreamResponse:
        match = request.match_info
        where = address.parse(match.get("group", ""), match["version"], match["rest"])
        kind = where and self._to.registry.find(where.group, where.version, where.plural)
        if where is None or kind is None or not _fits(kind, where):
            raise no_such_path()
        if not kind.stored:
            return await self._ask(request, kind, where)
        if where.subresource:
            return await self._part(request, kind, where)
        if where.name:
            return await self._one(request, kind, where)
        return await self._many(request, kind, where)

    async def _ask(self, request: web.Request, kind: Kind, where: Address) -> web.Response:
        """A question, such as a SelfSubjectAccessReview: answered and never kept."""
        if where.name or request.method != "POST":
            raise not_allowed()
        form = answers.form_of(request)
        parameters.write_options(request)
        body = await parameters.body_object(request)
        user = request.get(USER, SYSTEM)
        answer = self._to.access.answer(kind, where.namespace, body, user)
        return answers.shown(kind, answer, form, status=201)

    async def _many(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        match request.method:
            case "GET":
                if moments.flag(request.query, "watch"):
                    return await self._watch(request, kind, where)
                return await self._list(request, kind, where)
            case "POST" if where.namespace or not kind.namespaced:
                return await self._to.writing.create(request, kind, where)
            case "DELETE" if "deletecollection" in kind.verbs and (
                where.namespace or not kind.namespaced
            ):
                return await self._delete_many(request, kind, where)
        raise not_allowed()

    async def _one(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        match request.method:
            case "GET":
                return self._get(request, kind, where, subresources.itself(kind))
            case "PUT":
                return await self._to.writing.replace(
                    request, kind, where, subresources.itself(kind)
                )
            case "PATCH":
                return await self._to.writing.patch(request, kind, where, subresources.itself(kind))
            case "DELETE":
                return await self._delete(request, kind, where)
        raise not_allowed()

    async def _part(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        at = subresources.of(kind, where.subresource)
        if at is None:
            action = self._to.actions.find(kind, where.subresource)
            if action is None:
                raise not_found(kind, where.name) if kind.custom else no_such_path()
            if request.method != "POST":
                raise not_allowed()
            return await self._to.writing.act(request, kind, where, action)
        match request.method:
            case "GET" if at.name != subresources.FINALIZE:
                return self._get(request, kind, where, at)
            case "PUT":
                return await self._to.writing.replace(request, kind, where, at)
            case "PATCH" if at.name != subresources.FINALIZE:
                return await self._to.writing.patch(request, kind, where, at)
        raise not_allowed(kind, request.method)

    def _get(
        self, request: web.Request, kind: Kind, where: Address, at: subresources.Subresource
    ) -> web.Response:
        form = answers.form_of(request)
        moments.require_past(request.query, self._to.store.rv)
        stored = self._to.resources.get(kind, where.namespace, where.name)
        include = parameters.included(request.query, form)
        if at.kind is kind:
            return answers.stored(kind, stored.body, form, warnings=kind.warnings, include=include)
        obj = at.show(as_object(in_form(kind, stored.body)))
        return answers.shown(at.kind, obj, form)

    async def _delete(self, request: web.Request, kind: Kind, where: Address) -> web.Response:
        form = answers.form_of(request)
        options = await parameters.delete_options(request)
        user = request.get(USER, SYSTEM)
        done, warnings = await self._to.removal.delete(
            kind, where.namespace, where.name, options, user
        )
        if done.shown:
            return answers.stored(kind, done.body, form, status=done.code, warnings=warnings)
        details = {"name": where.name, "group": kind.group, "kind": kind.plural, "uid": done.uid}
        return answers.success(form, status=done.code, warnings=warnings, **details)

    async def _delete_many(
        self, request: web.Request, kind: Kind, where: Address
    ) -> web.StreamResponse:
        form = answers.form_of(request)
        options, user = await parameters.delete_options(request), request.get(USER, SYSTEM)
        found = listing.page(self._to.store, kind, self._query(request, kind, where))
        for number, body in enumerate(found.bodies):
            meta = as_object(body)["metadata"]
            with contextlib.suppress(NotFound):  # gone with its owner
                await self._to.removal.delete(
                    kind, meta.get("namespace", ""), meta["name"], options, user
                )
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return await answers.large(request, listing.pieces(kind, found, form, "Metadata"), form)

    async def _list(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        form = answers.form_of(request)
        found = listing.page(self._to.store, kind, self._query(request, kind, where))
        include = parameters.included(request.query, form)
        body = listing.pieces(kind, found, form, include)
        return await answers.large(request, body, form, warnings=kind.warnings)

    async def _watch(self, request: web.Request, kind: Kind, where: Address) -> web.StreamResponse:
        options = watch.options(request.query, answers.form_of(request), self._to.store.rv)
        selected = parameters.selection(request.query, kind, where)
        return await watch.serve(request, self._to.store, kind, selected, options)

    def _query(self, request: web.Request, kind: Kind, where: Address) -> listing.Query:
        return parameters.list_query(request.query, kind, where, latest=self._to.store.rv)


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


_VERBS = {"POST": "create", "PUT": "update"}


def not_allowed(kind: Kind | None = None, method: str = "") -> ApiError:
    text = "the server does not allow this method on the requested resource"
    if kind is not None and kind.custom:
        verb = _VERBS.get(method, method.lower())
        text = f'{verb} is not supported on resources of kind "{kind.resource}"'
    return ApiError(405, "MethodNotAllowed", text)


def _fits(kind: Kind, where: Address) -> bool:
    """Whether the path has the parts that this kind's paths have."""
    if where.namespace and not kind.namespaced:
        return False
    return not (where.name and kind.namespaced and not where.namespace)
