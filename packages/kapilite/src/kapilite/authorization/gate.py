"""The gate that every request passes: authentication, impersonation and authorization.

One middleware does all three, so none of them can be left out. A client without credentials
gets what the roles give to all, and is otherwise asked for them (401). One with them is told
what they lack (403), in Kubernetes' words. What passes is what was authorised: a path that can be
read in two ways, or that our routes read differently, goes no further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kapilite import address
from kapilite.authn.authenticator import USER
from kapilite.authorization.attributes import (
    from_request,
    is_about,
    is_plain,
)
from kapilite.authorization.impersonation import impersonated
from kapilite.authorization.refusal import denied
from kapilite.errors import NotFound

if TYPE_CHECKING:
    from kapilite.authn.authenticator import Authenticator, Handler, Middleware
    from kapilite.authorization.attributes import Attributes
    from kapilite.authorization.authorizer import Authorizer


def middleware(authenticator: Authenticator, authorizer: Authorizer) -> Middleware:
    """Aiohttp middleware; raises ApiError, which the one around it answers."""

    @web.middleware
    async def permitted(request: web.Request, handler: Handler) -> web.StreamResponse:
        user = authenticator.authenticate(request)
        user = impersonated(user, request.headers, authorizer)
        path = request.rel_url.raw_path
        wanted = from_request(request.method, path, request.query, user)
        decision = authorizer.decide(wanted)
        if not decision.allowed:
            raise denied(wanted, decision.reason)
        if not is_plain(path) or not _is_served_as(wanted, request):
            raise NotFound("the server could not find the requested resource")
        request[USER] = user
        return await handler(request)

    return permitted


def _is_served_as(wanted: Attributes, request: web.Request) -> bool:
    """Whether the route that will answer reads the path as it was read here."""
    match = request.match_info
    if "rest" not in match:
        return True
    where = address.parse(match.get("group", ""), match["version"], match["rest"])
    return where is None or is_about(wanted, where)
