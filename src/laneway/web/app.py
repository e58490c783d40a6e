"""The site: its pages, actions, stream and static files as one web application.

Every answer says what a browser may do with it: load nothing from elsewhere, run no script but the
site's own files, be in no frame, be kept by no cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from aiohttp import web

from laneway.changes.answered import words_of
from laneway.changes.errors import ChangeError
from laneway.kube.errors import CredentialsError, ForbiddenError, KubeError, UnauthorizedError
from laneway.web.access import Question
from laneway.web.caches import HISTORY, LEDGER, Change
from laneway.web.metrics import UiMetrics
from laneway.web.navigation import navigation
from laneway.web.page import Again, Done, NotFound, Page, Report, Routes
from laneway.web.place import Place, parse
from laneway.web.rendering import static_files
from laneway.web.session.guard import NOTICE
from laneway.web.session.sent import receive
from laneway.web.stream.hub import Hub, TooManyError
from laneway.web.stream.shared import Drawn, Shared
from laneway.web.stream.tab import Tab
from laneway.web.visit import SessionUser, Site, Visit

log = logging.getLogger(__name__)

STATIC = "/static/{hash}/{name}"
"""The resource of the static files, which need no session."""
PAGE = "page"
"""The id of the element that has a whole page."""
PROBLEM = "problem.html"
"""The template of what is shown instead of a page."""
_WHOLE = {"HX-Retarget": f"#{PAGE}", "HX-Reswap": "innerHTML", "HX-Reselect": "#live-problem"}
SEND_SECONDS = 10.0
"""A client that takes nothing for so long is dropped; the browser connects again."""
NOTE = "laneway-note"
"""The cookie of what the next page says was done."""

SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class _UnknownError(Exception):
    """Whether a page can be shown is not known now; its browser asks again."""


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Users(Protocol):
    """Who signed in, by request."""

    async def user(self, request: web.Request, questions: Sequence[Question]) -> SessionUser:
        """The user of a request, of whom the answers to these questions are known."""

    def csrf(self, request: web.Request) -> str:
        """What a form of the user has to send along."""

    def live(self, request: web.Request) -> bool:
        """Whether the session of a request, which may have begun long ago, still is."""


class Web:
    """Answers the requests of signed-in users."""

    form_bytes = 256 * 1024
    """So large may be what a form sends."""

    def __init__(self, site: Site, users: Users, routes: Routes, metrics: UiMetrics) -> None:
        self._site = site
        self._users = users
        self._routes = routes
        self._metrics = metrics
        self._hub = Hub()
        self._shared = Shared()
        site.caches.follow(self._changed)
        site.ledger.subscribe(lambda _ledger: self._hub.mark(LEDGER))
        site.ledger.subscribe(site.judging.ledger_made)
        site.server.subscribe(self._hub.redraw)
        if site.history is not None:
            site.history.subscribe(lambda: self._hub.mark(HISTORY))

    def _changed(self, change: Change) -> None:
        self._site.changed(change)  # Pages ask the rows what a change has moved.
        self._hub.mark(change)

    @property
    def open_pages(self) -> int:
        """How many pages are open in browsers."""
        return len(self._hub)

    def add_to(self, app: web.Application) -> None:
        """Serve pages, actions, the stream and static files."""
        app.on_response_prepare.append(_secure)
        app.router.add_get(
            "/static/{hash}/{name:.+}", static_file
        )  # STATIC is what aiohttp calls it
        app.router.add_get("/stream", self.stream)
        app.router.add_get("/{path:.*}", self._told(self.page))
        app.router.add_post("/{path:.*}", self._told(self.action))

    def _told(self, handler: Handler) -> Handler:
        """A defect of ours is logged and told; a form that it happened to stays as it is."""

        async def telling(request: web.Request) -> web.StreamResponse:
            try:
                return await handler(request)
            except (web.HTTPException, UnauthorizedError, CredentialsError):
                raise
            except Exception:
                if not self._users.live(request):
                    raise  # Its client is closed, and the guard says what to do.
                log.exception("%s %s failed", request.method, request.path)
            if "HX-Request" not in request.headers:
                return await self._problem(request, 500, "failed")
            text = self._site.rendering.page("failed-notice.html", {})
            response = _html(text, 500)
            response.headers.update(
                {"HX-Retarget": NOTICE, "HX-Reswap": "innerHTML", "HX-Reselect": "unset"}
            )
            return response

        return telling

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Show a page."""
        found = self._routes.page(request.raw_path.partition("?")[0])
        if found is None:
            return await self._problem(request, 404, "not_found")
        page, names = found
        try:
            place = parse(request.raw_path, names)
        except ValueError:
            return await self._problem(request, 400, "not_found")
        visit = await self._visit(request, page, place)
        response = await self._answer(request, page, visit)
        if "HX-Request" in request.headers:
            place = visit.place if place.query else place  # as the page has read it
            # without the fields that are empty
            header = "HX-Push-Url" if _is_step(request, place) else "HX-Replace-Url"
            response.headers[header] = place.url
        if NOTE in request.cookies:
            response.del_cookie(NOTE, httponly=True, secure=True, samesite="Strict")
        return response

    async def action(self, request: web.Request) -> web.StreamResponse:
        """Do what a form says, and show the next page, or the form again with what is wrong."""
        path = request.raw_path.partition("?")[0]
        found, action = self._routes.page(path), self._routes.action(path)
        if found is None or action is None:
            return await self._problem(request, 404, "not_found")
        page, names = found
        try:
            place = parse(request.raw_path, names)
        except ValueError:
            return await self._problem(request, 400, "not_found")
        visit = await self._visit(request, page, place)
        sent = await receive(request, action.file_bytes)
        visit.form, visit.files = sent.fields, sent.files
        try:
            outcome = await action.act(visit)
        except NotFound:
            return await self._problem(request, 404, "not_found")
        except (UnauthorizedError, CredentialsError):
            raise  # the session is over
        except (KubeError, ChangeError) as error:
            outcome = Again({"": [words_of(error)]})
        if isinstance(outcome, Done):
            response = web.Response(status=303, headers={"Location": outcome.url})
            if outcome.message:
                response.set_cookie(
                    NOTE,
                    quote(outcome.message[:600]),
                    max_age=60,
                    httponly=True,
                    secure=True,
                    samesite="Strict",
                )
            return response
        if isinstance(outcome, Report):
            context = {**self._layout(visit), "title": outcome.title, "report": outcome}
            return _html(self._site.rendering.page("report.html", context), 200)
        visit.problems = outcome.problems
        return await self._answer(request, page, visit, status=422)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Bring what changes on a page for as long as it is open."""
        found = self._routes.page(request.query.get("page", "").partition("?")[0])
        if found is None:
            return web.Response(status=404)
        page, names = found
        try:
            place = parse(request.query["page"], names)
        except ValueError:
            return web.Response(status=400)
        visit = await self._visit(request, page, place)
        shown, ended = Drawn({}, None), False
        is_current = request.query.get("have") == self._hub.version(page.kinds)
        try:
            if page.meanwhile is not None:
                await page.prepare(visit)
        except NotFound:
            is_current = False  # drawing it says so

        def draw() -> Mapping[str, str]:
            nonlocal shown, ended
            if ended:
                return shown.blocks
            try:
                if (lacks := _lacking(visit, page)) is None:
                    shown = self._shared.get(
                        (place.url, visit.user.name, visit.csrf),
                        self._hub.version(page.kinds),
                        lambda: self._draw(visit, page),
                    )
                    return shown.blocks
                if visit.user.access.known(lacks) is None:
                    raise _UnknownError
                problem = self._said(visit, "not_allowed", **_named(lacks))
            except NotFound:
                if self._site.caches.waiting_for():
                    raise _UnknownError from None
                problem = self._said(visit, "not_found")
            shown, ended = Drawn(self._instead(problem), None), True
            return shown.blocks

        tab = Tab(
            page.kinds,
            draw,
            lambda: shown.concerns,
            is_current=is_current and _lacking(visit, page) is None,
            pause=page.pause,
        )
        try:
            with self._hub.open(tab, visit.user.name):
                async with self._meanwhile(request, page, visit):
                    return await self._send(request, tab)
        except TooManyError:
            return web.Response(status=503, headers={"Retry-After": "30"})

    def _draw(self, visit: Visit, page: Page) -> Drawn:
        context = self._context(visit, page)
        blocks = self._site.rendering.live(page.template, context)
        return Drawn(_out_of_band(blocks), context.get("concerns"))

    def _instead(self, problem: Mapping[str, Any]) -> Mapping[str, str]:
        """What stands for a whole page that cannot be shown any more."""
        blocks = self._site.rendering.live(PROBLEM, problem)
        text = f'<div id="{PAGE}" hx-swap-oob="innerHTML">{blocks["live_problem"]}</div>'
        return {"page": text}

    @contextlib.asynccontextmanager
    async def _meanwhile(
        self, request: web.Request, page: Page, visit: Visit
    ) -> AsyncIterator[None]:
        """Run what a page needs while it is open."""
        if page.meanwhile is None:
            yield
            return
        task = asyncio.ensure_future(page.meanwhile(visit, self._hub.mark))
        try:
            yield
        finally:
            task.cancel()
            [ended] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, Exception) and self._users.live(request):
                log.error("%s is not followed any more", page.pattern, exc_info=ended)

    async def _send(self, request: web.Request, tab: Tab) -> web.StreamResponse:
        # Not compressed: a compressor keeps what it is given until it has more.
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)

        async def send(text: str) -> None:
            if not self._users.live(request):
                raise ConnectionResetError("the session has ended")
            async with asyncio.timeout(SEND_SECONDS):
                await response.write(text.encode())

        with contextlib.suppress(ConnectionResetError, TimeoutError, _UnknownError):
            await tab.run(send)
        return response

    # ---- drawing ----

    async def _visit(self, request: web.Request, page: Page, place: Place) -> Visit:
        user = await self._users.user(request, (*page.needs, *page.asks))
        csrf = self._users.csrf(request)
        return Visit(self._site, user, place, csrf=csrf, management=user.management, own=user.own)

    async def _answer(
        self, request: web.Request, page: Page, visit: Visit, status: int = 200
    ) -> web.Response:
        if (lacks := _lacking(visit, page)) is not None:
            return await self._problem(request, 403, "not_allowed", **_named(lacks))
        try:
            await page.prepare(visit)
            began, version = time.perf_counter(), self._hub.version(page.kinds)
            context = dict(self._context(visit, page))
        except NotFound:
            return await self._problem(request, 404, "not_found")
        except (UnauthorizedError, CredentialsError):
            raise  # the session is over
        except ForbiddenError as error:
            return await self._problem(request, 403, "forbidden", why=words_of(error))
        except KubeError as error:
            return await self._problem(request, 502, "server_failed", why=words_of(error))
        context["stream_url"] = f"/stream?page={quote(visit.place.url)}&have={version}"
        context["note"] = _note(request)
        text = self._site.rendering.page(page.template, context)
        self._metrics.drawn(page.pattern, time.perf_counter() - began)
        return _html(text, status)

    def _context(self, visit: Visit, page: Page) -> Mapping[str, Any]:
        own = page.context(visit)
        title = own.get("title") or self._site.texts(page.title)
        return {**self._layout(visit), **own, "title": title, "visit": visit}

    def _layout(self, visit: Visit) -> dict[str, Any]:
        away = self._site.server.away_since
        return {
            "csrf": visit.csrf,
            "user_name": visit.user.name,
            "navigation": navigation(visit),
            "away_since": away.isoformat() if away else "",
            "waiting_for": self._site.caches.waiting_for(),
            "stream_url": "",
            "note": "",
        }

    async def _problem(
        self, request: web.Request, status: int, what: str, **values: str
    ) -> web.Response:
        user = await self._users.user(request, ())
        visit = Visit(self._site, user, Place(path="/"), csrf=self._users.csrf(request))
        context = self._said(visit, what, **values)
        response = _html(self._site.rendering.page(PROBLEM, context), status)
        if what == "not_found" and _is_part(request):
            response.headers.update(_WHOLE)  # What was asked about is shown no longer.
        return response

    def _said(self, visit: Visit, what: str, **values: str) -> dict[str, Any]:
        texts = self._site.texts
        return {
            **self._layout(visit),
            "title": texts(f"site.{what}"),
            "text": texts(f"site.{what}_text", **values),
        }


def _lacking(visit: Visit, page: Page) -> Question | None:
    """A right that a page needs and the user does not have."""
    return next((question for question in page.needs if not visit.may(question)), None)


def _named(lacks: Question) -> dict[str, str]:
    return {"verb": lacks.verb, "resource": lacks.resource}


async def static_file(request: web.Request) -> web.Response:
    """A file of the site, which a browser may keep for good: its address has its hash."""
    name = request.match_info["name"]
    file = static_files().get(name)
    if file is None or request.match_info["hash"] != file.fingerprint:
        raise web.HTTPNotFound
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "")
    body = file.compressed if takes_gzip else file.content
    response = web.Response(body=body, content_type=kind, charset="utf-8")
    if takes_gzip:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    response.headers["Vary"] = "Accept-Encoding"
    return response


def _is_step(request: web.Request, place: Place) -> bool:
    """Whether it is one more page for Back: not the one that is shown, nor an answer in a form."""
    now = urlsplit(request.headers.get("HX-Current-URL", ""))
    shown = now._replace(scheme="", netloc="", fragment="").geturl()
    return request.headers.get("HX-Target", PAGE) == PAGE and place.url != shown


def _is_part(request: web.Request) -> bool:
    """Whether a part of a page is asked for."""
    return "HX-Request" in request.headers and "HX-Boosted" not in request.headers


def _out_of_band(blocks: Mapping[str, str]) -> Mapping[str, str]:
    """Blocks as htmx puts them in the place of those with the same id."""
    swap = '<div hx-swap-oob="morph" id="live-'
    return {name: html.replace('<div id="live-', swap, 1) for name, html in blocks.items()}


def _note(request: web.Request) -> str:
    return unquote(request.cookies.get(NOTE, ""))[:600]


def _html(text: str, status: int) -> web.Response:
    response = web.Response(text=text, content_type="text/html", status=status)
    response.enable_compression()
    return response


async def _secure(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY)
    response.headers.setdefault("Cache-Control", "no-store")
