"""The verbs that write: from the body of a request to a resource, and to an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite.encodings import negotiation
from kapilite.endpoints import actions, answers, parameters
from kapilite.patches import patch
from kapilite.storage.events import as_object
from kapilite.writes.objects import Subject, Target, complete, require_name, take_in

if TYPE_CHECKING:
    from aiohttp import web

    from kapilite.address import Address
    from kapilite.encodings.negotiation import Form
    from kapilite.endpoints.actions import Action
    from kapilite.kinds import Kind
    from kapilite.writes.objects import Outcome
    from kapilite.writes.resources import Resources
    from kapilite.writes.subresources import Subresource


class Writing:
    """POST, PUT and PATCH."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def create(self, request: web.Request, kind: Kind, where: Address) -> web.Response:
        form = answers.form_of(request)
        options = parameters.write_options(request)
        body = await parameters.body_object(request)
        made = await self._resources.create(kind, where.namespace, body, options)
        warnings = (*kind.warnings, *made.warnings)
        return answers.stored(kind, made.body, form, status=201, warnings=warnings)

    async def act(
        self, request: web.Request, kind: Kind, where: Address, action: Action
    ) -> web.Response:
        """Something that is done to an object by a POST to one of its subresources."""
        form = answers.form_of(request)
        options = parameters.write_options(request)
        posted = actions.KINDS[where.subresource]
        body = take_in(posted, where.namespace, await parameters.body_object(request))
        require_name(where.name, body["metadata"])
        complete(posted, body, options)
        subject = Subject(kind, where.namespace, where.name)
        body, warnings = await self._resources.admitted(kind, where, body, options)
        return answers.warned(await action(subject, body, options, form), warnings)

    async def replace(
        self, request: web.Request, kind: Kind, where: Address, at: Subresource
    ) -> web.Response:
        form = answers.form_of(request)
        options = parameters.write_options(request)
        body = await parameters.body_object(request)
        target = Target(kind, at, where.namespace, where.name)
        done = await self._resources.replace(
            target, body, options, unconditional=not kind.custom or at.name == "scale"
        )
        return _answer(target, done, form)

    async def patch(
        self, request: web.Request, kind: Kind, where: Address, at: Subresource
    ) -> web.Response:
        form = answers.form_of(request)
        media_type = request.content_type
        target = Target(kind, at, where.namespace, where.name)
        if media_type == negotiation.APPLY:
            return await self._apply(request, target, form)
        if media_type not in patch.accepted(kind):
            raise negotiation.unsupported([*patch.accepted(kind), negotiation.APPLY])
        options = parameters.write_options(request)
        change = negotiation.decode(await request.read(), negotiation.JSON)
        done = await self._resources.patch(
            target, lambda old: patch.apply(media_type, old, change, at.kind.schema), options
        )
        return _answer(target, done, form)

    async def _apply(self, request: web.Request, target: Target, form: Form) -> web.Response:
        options = parameters.write_options(request)
        sent = await parameters.applied_object(request)
        done, new = await self._resources.apply(target, sent, options)
        return _answer(target, done, form, status=201 if new else 200)


def _answer(target: Target, done: Outcome, form: Form, status: int = 200) -> web.Response:
    warnings = (*target.kind.warnings, *done.warnings)
    if target.at.kind is target.kind:
        return answers.stored(target.kind, done.body, form, status=status, warnings=warnings)
    obj: dict[str, Any] = target.at.show(as_object(done.body))
    return answers.shown(target.at.kind, obj, form, status=status, warnings=warnings)
