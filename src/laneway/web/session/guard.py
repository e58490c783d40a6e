"""The middleware before every page: who asks, whether it is one of our pages, and what if not.

Whatever is not public needs a session; an address that does not exist does too. A user without one
is sent to sign in and comes back to the page. A form that was sent without one is never lost: htmx
is told to show a notice and to leave the page as it is, and a browser without JavaScript gets a
page that says to go back. In both cases the form can be sent again after signing in elsewhere.

A link on another site reaches us without our cookies, as they are `SameSite=Strict`. It is answered
with a page that loads the same address once more, this time from here.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from urllib.parse import urlencode

from aiohttp import web

from laneway.kube.errors import CredentialsError, UnauthorizedError
from laneway.web.access import Question
from laneway.web.session.cookies import BROWSER, SESSION_ID, Cookies
from laneway.web.session.csrf import FIELD, HEADER, WRITES, CsrfTokens, is_from_us
from laneway.web.session.destination import destination
from laneway.web.session.live import Session, Sessions
from laneway.web.session.sent import Uploads, receive

Render = Callable[[str, Mapping[str, object]], str]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SESSION = web.RequestKey("session", Session)
"""Where a handler finds the session: `request[SESSION]`."""

SIGN_IN, SIGN_OUT, STATE = "/sign-in", "/sign-out", "/session"
NOTICE = "#session-notice"
"""The element of every page in which a notice about the session is shown."""
NO_SESSION = {"X-Laneway-Session": "none"}


class Guard:
    """Decides what a request may reach."""

    def __init__(
        self,
        sessions: Sessions,
        csrf: CsrfTokens,
        cookies: Cookies,
        render: Render,
        public: frozenset[str],
        *,
        stateless: frozenset[str] = frozenset(),
        file_bytes: Callable[[str], int] = lambda _path: 0,
    ) -> None:
        """`public`: the canonical names of resources that need no session.

        `stateless`: of those that have none, whatever cookies are sent: each request brings a
        token, which no other site can have a browser send.

        `file_bytes`: the largest file that a quoted path takes.
        """
        self._sessions = sessions
        self._csrf = csrf
        self._cookies = cookies
        self._render = render
        self._public = public
        self._stateless = stateless
        self._file_bytes = file_bytes
        self._uploads = Uploads()

    @web.middleware
    async def guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware."""
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical in self._stateless:
            return await handler(request)
        if _is_foreign_link(request) and not request.path.startswith(f"{SIGN_IN}/"):
            return self.onward(destination(request.raw_path))
        if request.method in WRITES and not is_from_us(request.headers):
            return self._notice(request, "form_foreign", 403)
        session = self._session(request)
        is_public = resource is not None and resource.canonical in self._public
        if session is None and not is_public:
            return self._without(request, "session_over")
        user = "" if is_public or session is None else session.name
        is_sent = bool(user) and request.method in WRITES
        file_bytes = self._file_bytes(_path(request)) if is_sent else 0
        with self._uploads.room(request, file_bytes):
            return await self._judged(request, handler, session, user, file_bytes)

    async def _judged(
        self,
        request: web.Request,
        handler: Handler,
        session: Session | None,
        user: str,
        file_bytes: int,
    ) -> web.StreamResponse:
        """A request of a session, or one of what is public."""
        if request.method in WRITES and not await self._has_token(request, user, file_bytes):
            has_cookies = self._cookies.has(request, BROWSER)
            why = "form_foreign" if has_cookies else "form_cookieless"
            return self._notice(request, why, 403)
        try:
            return await handler(request)
        except (UnauthorizedError, CredentialsError):
            if session is None:
                raise
            self._sessions.end(session)
            self._cookies.remove(request, SESSION_ID)
            return self._without(request, "session_refused")
        except RuntimeError:
            # Another request of the session has ended it, and its client was closed under this one.
            if session is None or not session.ended.is_set():
                raise
            return self._without(request, "session_refused")

    def browser(self, request: web.Request) -> str:
        """The browser of a request; one that is not known yet gets its cookie."""
        return self._cookies.read(request, BROWSER) or self.new_browser(request)

    def new_browser(self, request: web.Request) -> str:
        """Name a browser, so that forms of before are worth nothing there."""
        browser = secrets.token_urlsafe(32)
        self._cookies.write(request, BROWSER, browser)
        return browser

    def _session(self, request: web.Request) -> Session | None:
        id_ = self._cookies.read(request, SESSION_ID)
        browser = self._cookies.read(request, BROWSER) if id_ else ""
        by_itself = _is_stream(request) or request.path == STATE
        found = self._sessions.find(id_, browser, uses=not by_itself) if browser else None
        if found is None:
            return None
        request[SESSION] = found.session
        if found.new_id:
            self._cookies.write(request, SESSION_ID, found.new_id)
            self._cookies.write(request, BROWSER, browser)
        return found.session

    async def _has_token(self, request: web.Request, user: str, file_bytes: int) -> bool:
        browser = self._cookies.read(request, BROWSER)
        sent = await receive(request, file_bytes)
        given = request.headers.get(HEADER, next(iter(sent.fields.get(FIELD, ())), None))
        return bool(browser) and given is not None and self._csrf.is_right(given, browser, user)

    def onward(self, address: str) -> web.Response:
        """A page that leads to an address, so that the browser comes there from this site."""
        text = self._render("session-onward.html", {"address": address})
        return web.Response(text=text, content_type="text/html")

    def _without(self, request: web.Request, why: str) -> web.StreamResponse:
        """The answer to a request that needs a session and has none."""
        if request.path == SIGN_OUT:
            return see_other(SIGN_IN)
        is_read = request.method in {"GET", "HEAD"}
        sign_in = _sign_in(request, why) if is_read else SIGN_IN
        if _is_stream(request):
            return web.Response(status=401, headers=NO_SESSION)
        if _is_htmx(request):
            if is_read and "HX-Boosted" in request.headers:
                return web.Response(status=401, headers={**NO_SESSION, "HX-Redirect": sign_in})
            return self._notice(request, why, 401)
        if is_read and request.path != STATE:
            return see_other(sign_in)
        return self._notice(request, why, 401)

    def _notice(self, request: web.Request, why: str, status: int) -> web.Response:
        """What is wrong: within the page for htmx, which keeps its forms, or as a page."""
        is_part = _is_htmx(request)
        template = "session-notice.html" if is_part else "session-over.html"
        headers = dict(NO_SESSION) if status == 401 else {}
        if is_part:
            headers |= {"HX-Retarget": NOTICE, "HX-Reswap": "innerHTML", "HX-Reselect": "unset"}
        text = self._render(template, {"why": why})
        return web.Response(text=text, content_type="text/html", status=status, headers=headers)


class SignedIn:
    """The users of requests that the guard has let through."""

    async def user(self, request: web.Request, questions: Iterable[Question]) -> Session:
        """The user, of whom the answers to these questions are known or cannot be.

        Raises UnauthorizedError or CredentialsError when the token is no longer accepted, which
        ends the session.
        """
        session = request[SESSION]
        await session.access.load(questions)
        failure = session.access.failure
        if isinstance(failure, UnauthorizedError | CredentialsError):
            raise failure
        return session

    def csrf(self, request: web.Request) -> str:
        """What forms of the user carry."""
        return request[SESSION].csrf

    def live(self, request: web.Request) -> bool:
        """Whether the session of a request, which may have begun long ago, still is."""
        return not request[SESSION].ended.is_set()


def _path(request: web.Request) -> str:
    """Quoted, as patterns of pages are compared with it."""
    return request.raw_path.partition("?")[0]


def see_other(address: str) -> web.Response:
    """Leads to an address, exactly as it is written."""
    return web.Response(status=303, headers={"Location": address})


def _sign_in(request: web.Request, why: str) -> str:
    fields = {"next": destination(request.raw_path)}
    if why != "session_over":
        fields["notice"] = why
    return f"{SIGN_IN}?{urlencode(fields)}"


def _is_htmx(request: web.Request) -> bool:
    return request.headers.get("HX-Request") == "true"


def _is_stream(request: web.Request) -> bool:
    return "text/event-stream" in request.headers.get("Accept", "")


def _is_foreign_link(request: web.Request) -> bool:
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("Sec-Fetch-Site") == "cross-site"
        and headers.get("Sec-Fetch-Mode") == "navigate"
    )
