"""Sign-in at the identity provider, as the browser goes there and comes back."""

from __future__ import annotations

import secrets

import msgspec
from aiohttp import web

from laneway.web.session.cookies import OIDC, Cookies
from laneway.web.session.destination import HOME, destination
from laneway.web.session.entrance import Entrance
from laneway.web.session.guard import Guard, see_other
from laneway.web.session.identity import Problem, RefusedError
from laneway.web.session.oidc import CALLBACK, Pending, Provider, ProviderError

START = "/sign-in/oidc"
PENDING_SECONDS = 600
"""How long a user may be at the provider."""


class ByProvider:
    """The two addresses that this takes."""

    def __init__(
        self, provider: Provider, entrance: Entrance, cookies: Cookies, guard: Guard
    ) -> None:
        self._provider = provider
        self._entrance = entrance
        self._cookies = cookies
        self._guard = guard

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(START, self.start, allow_head=False),
            web.get(CALLBACK, self.callback, allow_head=False),
        ]

    async def start(self, request: web.Request) -> web.Response:
        """Send the browser to the provider."""
        next_ = destination(request.query.get("next", HOME))
        try:
            address, pending = await self._provider.begin(self._guard.browser(request), next_)
        except ProviderError as error:
            return self._entrance.again(request, next_, _failed(error))
        text = msgspec.json.encode(pending).decode()
        # The browser comes back from another site, where `Strict` would keep the cookie from us.
        self._cookies.write(request, OIDC, text, same_site="Lax", seconds=PENDING_SECONDS)
        return see_other(address)

    async def callback(self, request: web.Request) -> web.Response:
        """Begin a session for the user whom the provider sent back."""
        next_ = HOME
        try:
            self._entrance.count(request)
            pending = self._pending(request)
            next_ = pending.next
            tokens = await self._provider.finish(request.query.get("code", ""), pending)
            ends = None if tokens.refresh_token else tokens.expires
            credentials = self._provider.credentials(tokens)
            await self._entrance.enter(request, pending.browser, tokens.id_token, credentials, ends)
        except RefusedError as refused:
            return self._entrance.again(request, next_, refused.problem)
        except ProviderError as error:
            return self._entrance.again(request, next_, _failed(error))
        return self._guard.onward(next_)

    def _pending(self, request: web.Request) -> Pending:
        """The sign-in that this browser was sent to the provider for. Raises RefusedError."""
        text = self._cookies.read(request, OIDC, PENDING_SECONDS)
        self._cookies.remove(request, OIDC)
        if not text:
            raise RefusedError(Problem("provider_too_late", status=403))
        pending = msgspec.json.decode(text, type=Pending)
        state = request.query.get("state", "")
        if not secrets.compare_digest(state.encode(), pending.state.encode()):
            raise RefusedError(Problem("provider_too_late", status=403))
        if error := request.query.get("error", ""):
            raise RefusedError(Problem("provider_refused", {"why": error[:100]}, 403))
        return pending


def _failed(error: ProviderError) -> Problem:
    return Problem("provider_failed", {"why": str(error)}, 502)
