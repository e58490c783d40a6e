"""The HTTP application: which path leads where, and what every answer has in common.

Every failure leaves as a `Status`, also those of the HTTP layer. An unexpected one is
logged with its traceback and answered as a plain 500: clients learn nothing of the inside.
"""

from __future__ import annotations

import logging
import platform
import sqlite3
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from kapilite.authn import discovery as issuer
from kapilite.encodings import negotiation
from kapilite.endpoints import answers, discovery
from kapilite.endpoints.handlers import Handlers, no_such_path, not_allowed
from kapilite.errors import ApiError
from kapilite.openapi import documents, swagger_proto

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapilite.authn import SigningKey
    from kapilite.authn.authenticator import Middleware
    from kapilite.endpoints.handlers import Services
    from kapilite.registry import Registry
    from kapilite.storage.store import Store

log = logging.getLogger(__name__)

REQUEST_LIMIT = 3 * 1024 * 1024
KUBERNETES = ("1", "36")
"""The release of Kubernetes whose behaviour this follows."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""Go's names of machines, where they are not those of `uname`."""


def make(services: Services, signing_key: SigningKey, gate: Middleware | None) -> web.Application:
    """The application; without a gate everybody may do everything."""
    middlewares: list[Any] = [_answer_errors]
    if gate is not None:
        middlewares.append(gate)
    app = web.Application(middlewares=middlewares, client_max_size=REQUEST_LIMIT)
    pages = Pages(services.store, services.registry, signing_key)
    handlers = Handlers(services)
    router = app.router
    for path in ("/healthz", "/livez", "/readyz"):
        router.add_get(path, pages.health)
        router.add_get(f"{path}/ping", pages.ping)
        router.add_get(f"{path}/store", pages.stored)
    router.add_get("/", pages.index, allow_head=False)
    router.add_get("/version", pages.version, allow_head=False)
    router.add_get(issuer.CONFIGURATION_PATH, pages.issuer, allow_head=False)
    router.add_get(issuer.KEYS_PATH, pages.issuer_keys, allow_head=False)
    router.add_get("/api", pages.api, allow_head=False)
    router.add_get("/apis", pages.apis, allow_head=False)
    router.add_get("/apis/{group}", pages.group, allow_head=False)
    router.add_get("/api/{version}", pages.resources, allow_head=False)
    router.add_get("/apis/{group}/{version}", pages.resources, allow_head=False)
    router.add_get("/openapi/v2", pages.openapi_v2, allow_head=False)
    router.add_get("/openapi/v3", pages.openapi_v3_index, allow_head=False)
    router.add_get("/openapi/v3/api/{version}", pages.openapi_v3, allow_head=False)
    router.add_get("/openapi/v3/apis/{group}/{version}", pages.openapi_v3, allow_head=False)
    router.add_route("*", "/api/{version}/{rest:.+}", handlers.serve)
    router.add_route("*", "/apis/{group}/{version}/{rest:.+}", handlers.serve)
    return app


class Pages:
    """What the server says about itself."""

    def __init__(self, store: Store, registry: Registry, signing_key: SigningKey) -> None:
        self._store = store
        self._registry = registry
        self._signing_key = signing_key

    async def index(self, request: web.Request) -> web.Response:
        """The paths that can be requested, as `kubectl get --raw /` shows them."""
        fixed = (r.canonical for r in request.app.router.resources())
        paths = {path for path in fixed if path != "/" and "{" not in path}
        for kind in self._registry.kinds:
            paths |= {f"/apis/{kind.group}"} if kind.group else set()
            paths.add(f"/{'apis' if kind.group else 'api'}/{kind.api_version}")
        return answer({"paths": sorted(paths)})

    async def ping(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def stored(self, _: web.Request) -> web.Response:
        if self._is_readable():
            return web.Response(text="ok")
        return web.Response(text="internal server error: store failed\n", status=500)

    def _is_readable(self) -> bool:
        try:
            self._store.check()
        except sqlite3.Error:
            log.exception("the store cannot be read")
            return False
        return True

    async def health(self, request: web.Request) -> web.Response:
        if not self._is_readable():
            text = f"[+]ping ok\n[-]store failed\n{request.path[1:]} check failed\n"
            return web.Response(text=text, status=500)
        if "verbose" not in request.query:
            return web.Response(text="ok")
        return web.Response(text=f"[+]ping ok\n[+]store ok\n{request.path[1:]} check passed\n")

    async def version(self, _: web.Request) -> web.Response:
        major, minor = KUBERNETES
        return answer(
            {
                "major": major,
                "minor": minor,
                "gitVersion": f"v{major}.{minor}.0+kapilite.{version('kapilite')}",
                "gitCommit": "",
                "gitTreeState": "",
                "buildDate": "",
                "goVersion": "",
                "compiler": "",
                "platform": _platform(),
            }
        )

    async def issuer(self, request: web.Request) -> web.Response:
        try:
            origin = str(request.url.origin())
        except ValueError as error:  # made of what the client says that the host is
            raise ApiError(400, "BadRequest", "malformed Host header") from error
        return answer(issuer.configuration(origin))

    async def issuer_keys(self, _: web.Request) -> web.Response:
        body = msgspec.json.encode(issuer.key_set(self._signing_key))
        return web.Response(body=body, content_type=issuer.KEYS_MEDIA_TYPE)

    async def api(self, request: web.Request) -> web.Response:
        return self._aggregated(request, core=True) or answer(discovery.versions())

    async def apis(self, request: web.Request) -> web.Response:
        found = self._aggregated(request, core=False)
        return found or answer(discovery.api_groups(self._registry.kinds))

    def _aggregated(self, request: web.Request, *, core: bool) -> web.Response | None:
        version = discovery.negotiate(request.headers.get("Accept", ""))
        if version is None:
            return None
        response = answer(discovery.aggregated(self._registry.kinds, core, version=version))
        response.headers["Content-Type"] = discovery.content_type(version)
        return response

    async def group(self, request: web.Request) -> web.Response:
        return answer(discovery.group(self._registry.kinds, request.match_info["group"]))

    async def resources(self, request: web.Request) -> web.Response:
        group, version = _group_version(request)
        return answer(discovery.resources(self._registry.kinds, group, version))

    async def openapi_v2(self, request: web.Request) -> web.Response:
        accept = request.headers.get("Accept", "")
        if accept.partition(",")[0].strip() in swagger_proto.ACCEPTED:
            body = swagger_proto.encode(documents.v2(self._registry.kinds))
            return web.Response(body=body, headers={"Content-Type": swagger_proto.MEDIA_TYPE})
        form = negotiation.form(accept)
        body = negotiation.encode(documents.v2(self._registry.kinds), form.media_type)
        return web.Response(body=body, content_type=form.media_type)

    async def openapi_v3_index(self, _: web.Request) -> web.Response:
        return answer(documents.v3_index(self._registry.kinds))

    async def openapi_v3(self, request: web.Request) -> web.Response:
        return answer(documents.v3(self._registry.kinds, *_group_version(request)))


def answer(value: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json")


def _platform() -> str:
    """What this runs on, as Go names it."""
    machine = platform.machine()
    return f"{platform.system().lower()}/{_ARCHITECTURES.get(machine, machine)}"


def _group_version(request: web.Request) -> tuple[str, str]:
    return request.match_info.get("group", ""), request.match_info["version"]


@web.middleware
async def _answer_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as known:
        error = known
    except web.HTTPNotFound:
        error = no_such_path()
    except web.HTTPMethodNotAllowed:
        error = not_allowed()
    except web.HTTPRequestEntityTooLarge:
        text = f"Request entity too large: limit is {REQUEST_LIMIT}"
        error = ApiError(413, "RequestEntityTooLarge", text)
    except web.HTTPException as failure:
        error = ApiError(failure.status, "BadRequest", failure.reason)
    except (ConnectionError, web.RequestPayloadError):
        error = ApiError(400, "BadRequest", "the body of the request ended too early")
    except RecursionError:
        error = ApiError(400, "BadRequest", "the object or the change to it is nested too deep")
    except Exception:
        log.exception("request failed", extra={"method": request.method, "path": request.path})
        text = "an error on the server has prevented the request from succeeding; see its log"
        error = ApiError(500, "InternalError", text)
    response = answer(error.status(), error.code)
    return answers.warned(response, getattr(error, "warnings", ()))
