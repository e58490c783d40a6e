"""From a token to a session: attempts are counted first, and then the API server is asked.

A session is always a new one, and the only one of its browser.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence

from aiohttp import web

from laneway.core.tracing import Tracer
from laneway.kube.auth import Credentials
from laneway.kube.cluster import ClusterConfig
from laneway.web.session.attempts import Attempts
from laneway.web.session.cookies import BROWSER, SESSION_ID, Cookies
from laneway.web.session.csrf import CsrfTokens
from laneway.web.session.guard import Guard, Render
from laneway.web.session.identity import Problem, RefusedError, client_for, expiry, person_of
from laneway.web.session.live import Sessions
from laneway.web.session.peers import Network, peer

log = logging.getLogger(__name__)


class Entrance:
    """What all ways to sign in have in common."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        sessions: Sessions,
        csrf: CsrfTokens,
        cookies: Cookies,
        guard: Guard,
        render: Render,
        attempts: Attempts,
        proxies: Sequence[Network] = (),
        has_provider: bool = False,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`has_provider`: the form offers the identity provider too. `tracer`: of users' writes."""
        self._config = config
        self._sessions = sessions
        self._csrf = csrf
        self._cookies = cookies
        self._guard = guard
        self._render = render
        self._attempts = attempts
        self._proxies = proxies
        self._has_provider = has_provider
        self._tracer = tracer
        self._clock = clock

    def count(self, request: web.Request) -> None:
        """Count an attempt. Raises RefusedError when there were too many."""
        if seconds := self._attempts.wait(peer(request, self._proxies)):
            raise RefusedError(Problem("too_many", {"seconds": math.ceil(seconds)}, 429))

    async def enter(
        self,
        request: web.Request,
        browser: str,
        token: str,
        credentials: Credentials | None = None,
        ends: float | None = None,
    ) -> None:
        """Begin a session for the user of a token. Raises RefusedError.

        `credentials` renew the token; `ends`: when the session ends that has them.
        """
        async with contextlib.AsyncExitStack() as stack:
            client = client_for(self._config, token, credentials, self._tracer)
            await stack.enter_async_context(client)
            person = await person_of(client, token, self._clock())
            stack.pop_all()  # The session closes it.
        csrf = self._csrf.token(browser, person.name)
        ends = ends if credentials else expiry(token)
        session = self._sessions.start(person, client, browser=browser, csrf=csrf, ends=ends)
        self._cookies.write(request, SESSION_ID, session.id)
        self._cookies.write(request, BROWSER, browser)
        log.info("%r signed in from %s", person.name, peer(request, self._proxies))

    def again(self, request: web.Request, next_: str, problem: Problem) -> web.Response:
        """The form with the reason why there is no session."""
        log.warning("a sign-in from %s is refused: %s", peer(request, self._proxies), problem.id)
        return self.form(request, next_, problem)

    def form(
        self, request: web.Request, next_: str, problem: Problem | None = None, notice: str = ""
    ) -> web.Response:
        """The page on which a token is pasted."""
        context = {
            "csrf": self._csrf.token(self._guard.browser(request)),
            "next": next_,
            "oidc": self._has_provider,
            "problem": problem,
            "notice": notice,
        }
        text = self._render("sign-in.html", context)
        response = web.Response(text=text, content_type="text/html")
        if problem:
            response.set_status(problem.status)
            if seconds := problem.values.get("seconds"):
                response.headers["Retry-After"] = str(seconds)
        return response
