"""Sign-in and sign-out as a part of a web application.

A user signs in with a pasted token, a one-time code, or at an identity provider (`by_provider`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from aiohttp import web

from laneway.core.tracing import Tracer
from laneway.kube.cluster import ClusterConfig
from laneway.web.session.attempts import Attempts
from laneway.web.session.by_provider import START, ByProvider
from laneway.web.session.cookies import SESSION_ID, Cookies
from laneway.web.session.csrf import CsrfTokens
from laneway.web.session.destination import DONE, HOME, destination
from laneway.web.session.entrance import Entrance
from laneway.web.session.guard import (
    SESSION,
    SIGN_IN,
    SIGN_OUT,
    STATE,
    Guard,
    Render,
    see_other,
)
from laneway.web.session.identity import Problem, RefusedError, pasted
from laneway.web.session.live import Limits, Sessions
from laneway.web.session.oidc import CALLBACK, OidcSettings, Provider
from laneway.web.session.once import OnceCodes
from laneway.web.session.peers import Network
from laneway.web.session.sealing import Keyring

log = logging.getLogger(__name__)

ONCE = "/sign-in/once/{code}"
NOTICES = frozenset({"signed_out", "session_refused"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator decides about sign-in."""

    limits: Limits = field(default_factory=Limits)
    proxies: tuple[Network, ...] = ()
    """Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    oidc: OidcSettings | None = None


class SignIn:
    """Sign-in to one cluster. Add it to an application with `install`."""

    def __init__(
        self,
        config: ClusterConfig,
        render: Render,
        settings: Settings | None = None,
        *,
        public: frozenset[str] = frozenset(),
        stateless: frozenset[str] = frozenset(),
        file_bytes: Callable[[str], int] = lambda _path: 0,
        attempts: Attempts | None = None,
        clock: Callable[[], float] = time.time,
        tracer: Tracer | None = None,
    ) -> None:
        """`public`: the canonical names of resources that need no session; `stateless`: have none.

        `file_bytes`: the largest file that a quoted path takes. `tracer`: what takes the spans of
        users' writes.

        Raises ConfigError for an identity provider that is of no use.
        """
        settings = settings or Settings()
        self.sessions = Sessions(settings.limits, clock)
        self._codes = OnceCodes()
        self._render = render
        csrf, cookies = CsrfTokens(), Cookies(Keyring(clock), settings.proxies)
        public |= {SIGN_IN, DONE, ONCE, START, CALLBACK}
        guard = Guard(
            self.sessions,
            csrf,
            cookies,
            render,
            public,
            stateless=stateless,
            file_bytes=file_bytes,
        )
        self._cookies, self._guard = cookies, guard
        self._entrance = Entrance(
            config,
            sessions=self.sessions,
            csrf=csrf,
            cookies=cookies,
            guard=guard,
            render=render,
            attempts=attempts or Attempts(),
            proxies=settings.proxies,
            has_provider=settings.oidc is not None,
            tracer=tracer,
            clock=clock,
        )
        self._routes = [
            web.get(SIGN_IN, self._form),
            web.post(SIGN_IN, self._by_token),
            web.get(DONE, self._done),
            web.get(ONCE, self._by_code, allow_head=False),
            web.post(SIGN_OUT, self._out),
            web.get(STATE, self._state),
        ]
        if settings.oidc:
            provider = Provider(settings.oidc, clock)
            self._routes += ByProvider(provider, self._entrance, cookies, guard).routes()

    def install(self, app: web.Application) -> None:
        """Guard all of an application, and add what is about signing in."""
        app.middlewares.append(self._guard.guarded)
        app.on_response_prepare.append(self._cookies.put)
        app.cleanup_ctx.append(self._running)
        app.add_routes(self._routes)

    def once(self, token: str) -> str:
        """The path of an address that signs in with a token, once."""
        return ONCE.format(code=self._codes.issue(token))

    async def _running(self, _app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self.sessions.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _form(self, request: web.Request) -> web.Response:
        next_ = destination(request.query.get("next", HOME))
        if SESSION in request:
            return see_other(next_)
        notice = request.query.get("notice", "")
        return self._entrance.form(request, next_, notice=notice if notice in NOTICES else "")

    async def _by_token(self, request: web.Request) -> web.Response:
        form = await request.post()
        next_ = destination(_text(form.get("next")) or HOME)
        try:
            self._entrance.count(request)
            token = pasted(_text(form.get("token")))
            await self._entrance.enter(request, self._guard.browser(request), token)
        except RefusedError as refused:
            return self._entrance.again(request, next_, refused.problem)
        return see_other(next_)

    async def _by_code(self, request: web.Request) -> web.Response:
        try:
            self._entrance.count(request)
            token = self._token_of(request.match_info["code"])
            await self._entrance.enter(request, self._guard.browser(request), token)
        except RefusedError as refused:
            return self._entrance.again(request, HOME, refused.problem)
        return self._guard.onward(HOME)

    def _token_of(self, code: str) -> str:
        token = self._codes.take(code)
        if token is None:
            raise RefusedError(Problem("code_used", status=403))
        return token

    async def _out(self, request: web.Request) -> web.Response:
        session = request[SESSION]
        self.sessions.end(session)
        self._cookies.remove(request, SESSION_ID)
        self._guard.new_browser(request)
        log.info("%r signed out", session.name)
        return see_other(f"{SIGN_IN}?notice=signed_out")

    async def _done(self, _request: web.Request) -> web.Response:
        text = self._render("signed-in.html", {})
        return web.Response(text=text, content_type="text/html")

    async def _state(self, _request: web.Request) -> web.Response:
        """For a page that wants to know whether its session is still there."""
        return web.Response(status=204)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
