"""The addresses that programs ask.

Besides Laneway's own there is one of Harvester's API, as clients of Harvester read it: cluster
`local` with a link, under which is how many devices of each type are free. Rancher's proxy has it
under `/k8s/clusters/ID`, which is served too: a proxy that sends only this address here need
rewrite nothing, and the link leads back to it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from aiohttp import web

from laneway.web.api.callers import Callers
from laneway.web.api.capacity import Documents, may_look
from laneway.web.api.errors import Refused, as_status
from laneway.web.history import reading
from laneway.web.history.recorder import RETRY_SECONDS
from laneway.web.history.store import UnusableError
from laneway.web.place import Place
from laneway.web.visit import Site, Visit

log = logging.getLogger(__name__)

CAPACITY = "/api/v1/capacity"
HISTORY = "/api/v1/history"
CLUSTER = "/v1/harvester/cluster/local"
PROXIED = f"/k8s/clusters/{{cluster}}{CLUSTER}"
OTHER = "/api/{path}"
RESOURCES = frozenset({CAPACITY, HISTORY, CLUSTER, PROXIED, OTHER})
"""The canonical names of all of them."""
LINK = "deviceCapacity"

Answer = Callable[[web.Request], Awaitable[web.Response]]


class Api:
    """Answers programs."""

    def __init__(self, site: Site, callers: Callers) -> None:
        self._site = site
        self._callers = callers
        self._documents = Documents()

    def add_to(self, app: web.Application) -> None:
        """Serve all addresses; the application must not serve them before."""
        app.router.add_route("*", CAPACITY, self._answering(self._seen(self._capacity)))
        app.router.add_route("*", HISTORY, self._answering(self._seen(self._history)))
        app.router.add_route("*", CLUSTER, self._answering(self._seen(self._cluster)))
        app.router.add_route("*", PROXIED, self._answering(self._seen(self._cluster)))
        # aiohttp calls this one OTHER.
        app.router.add_route("*", "/api/{path:.*}", self._answering(_nothing))
        app.cleanup_ctx.append(self._running)

    async def _running(self, _app: web.Application) -> AsyncIterator[None]:
        yield
        await self._callers.close()

    def _answering(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answering(request: web.Request) -> web.Response:
            try:
                return await answer(request)
            except Refused as refused:
                return self._refused(refused)
            except Exception:
                log.exception("%s %s failed", request.method, request.path)
                return self._refused(Refused(500, "api.failed"))

        return answering

    def _seen(self, show: Callable[[web.Request, Visit], Awaitable[web.Response]]) -> Answer:
        """What a user is shown of the cluster."""

        async def seen(request: web.Request) -> web.Response:
            if request.method not in {"GET", "HEAD"}:
                raise Refused(405, "api.method")
            async with self._callers.caller(request) as caller:
                return await show(request, Visit(self._site, caller, _place(request)))

        return seen

    def _refused(self, refused: Refused) -> web.Response:
        return as_status(refused, self._site.texts(refused.text, **refused.values))

    async def _capacity(self, request: web.Request, visit: Visit) -> web.Response:
        found = await self._documents.whole(visit)
        headers = {"Vary": "Accept-Encoding"}
        if takes_gzip := "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
        body = found.compressed if takes_gzip else found.plain
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _history(self, _request: web.Request, visit: Visit) -> web.Response:
        await may_look(visit, "api.forbidden_history")
        try:
            document = await reading.document(visit)
        except reading.BadQueryError as error:
            raise Refused(400, f"api.{error.text}", {"value": error.value[:80]}) from None
        except UnusableError as error:
            why = {"why": str(error)}
            raise Refused(503, "api.history_unusable", why, retry=RETRY_SECONDS) from None
        if document is None:
            raise Refused(404, "api.history_off")
        return web.json_response(body=msgspec.json.encode(document))

    async def _cluster(self, request: web.Request, visit: Visit) -> web.Response:
        free = await self._documents.by_type(visit)
        if (link := request.query.get("link")) == LINK:
            return web.json_response(free)
        if link is not None:
            raise Refused(404, "api.no_link", {"link": link[:80]})
        path = request.rel_url.raw_path  # As it was asked: what was quoted stays quoted.
        links = {"self": path, LINK: f"{path}?link={LINK}"}
        return web.json_response({"id": "local", "type": "cluster", "links": links})


def _place(request: web.Request) -> Place:
    return Place(path=request.path, query=tuple(request.query.items()))


async def _nothing(_request: web.Request) -> web.Response:
    raise Refused(404, "api.not_found")
