"""A site with sign-in, on an API server that knows its users, and browsers that visit it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from kapilite.authn import Authenticator
from kapilite.authn.users import MASTERS, User
from kapilite.server import ApiServer
from kubebasics.serving.listening import listening
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.cluster import User as ClusterUser
from laneway.web.access import Question
from laneway.web.rendering import Rendering, Texts
from laneway.web.session.guard import SESSION, SignedIn
from laneway.web.session.sign_in import SignIn
from support.processes import SECONDS

ADMIN, ALICE = "admin-token", "alice-token"
NAMELESS = "nameless-token"
TOKENS = {
    ADMIN: User("admin", (MASTERS,)),
    ALICE: User("alice", ("people",)),
    NAMELESS: User("system:anonymous"),
}
TEAM = "team"
"""The namespace in which Alice may read pods."""
RBAC = "rbac.authorization.k8s.io"

Sent = Mapping[str, str] | Sequence[tuple[str, str]]
"""The fields of a form; some may stand several times."""
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Reply(NamedTuple):
    status: int
    headers: CIMultiDict[str]
    text: str


class Stream(NamedTuple):
    """The events of an open page."""

    content: aiohttp.StreamReader

    async def next(self) -> str:
        """The HTML of the next event."""
        event = (await self.content.readuntil(b"\n\n")).decode()
        return event.replace("\ndata: ", "\n").removeprefix("data: ")

    async def until(self, shows: Callable[[str], bool]) -> str:
        """The HTML of the next event that shows something."""
        while not shows(event := await self.next()):
            pass
        return event


class Browser:
    """Keeps cookies as browsers do, which take this machine for secure."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookies: dict[str, str] = {}
        self._lax: set[str] = set()
        """Names of cookies that go along from links on other sites too."""
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.http.close()

    def cookie(self, kind: str) -> str:
        """The sealed content of a cookie of ours; empty if there is none."""
        port = URL(self.url).port
        names = (f"{prefix}laneway-{kind}-{port}" for prefix in ("__Host-", ""))
        return next((self.cookies[name] for name in names if name in self.cookies), "")

    async def get(self, path: str, **headers: str) -> Reply:
        return await self._ask("GET", path, None, headers)

    async def post(self, path: str, fields: Sent, **headers: str) -> Reply:
        return await self._ask("POST", path, fields, headers)

    async def follow(self, path: str) -> Reply:
        """A link on another site, or a redirect from there."""
        return await self.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")

    @contextlib.asynccontextmanager
    async def stream(self, page: str) -> AsyncIterator[Stream]:
        """What a page that is open is sent. There are seconds for all that is awaited of it."""
        address = URL(f"{self.url}/stream?page={quote(page, safe='/')}", encoded=True)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        async with self.http.get(address, headers=headers) as response, asyncio.timeout(SECONDS):
            assert response.status == 200
            yield Stream(response.content)

    async def sign_in(self, token: str, next_: str = "/") -> Reply:
        """Open the form, paste a token, send it."""
        page = await self.get("/sign-in")
        fields = {"token": token, "next": next_, "csrf": csrf_of(page.text)}
        return await self.post("/sign-in", fields)

    async def _ask(self, method: str, path: str, fields: Any, headers: Mapping[str, str]) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        foreign = method == "GET" and named.get("Sec-Fetch-Site") == "cross-site"
        sent = {k: v for k, v in self.cookies.items() if not foreign or k in self._lax}
        named["Cookie"] = "; ".join(f"{name}={value}" for name, value in sent.items())
        address = URL(self.url + path, encoded=True)
        async with self.http.request(
            method, address, data=fields, headers=named, allow_redirects=False
        ) as response:
            for name, cookie in response.cookies.items():
                assert cookie["httponly"]
                assert cookie["secure"]
                assert cookie["path"] == "/"
                self.cookies[name] = cookie.value
                if cookie["max-age"] == "0":
                    del self.cookies[name]
                elif cookie["samesite"] == "Lax":
                    self._lax.add(name)
            return Reply(response.status, response.headers.copy(), await response.text())


def csrf_of(page: str) -> str:
    found = _CSRF.search(page)
    assert found, page
    return found[1]


class Place(NamedTuple):
    """What a test has: the server, how the role reaches it, and the administrator's client."""

    server: ApiServer
    config: ClusterConfig
    client: Client


@contextlib.asynccontextmanager
async def cluster(authenticator: Authenticator | None = None) -> AsyncIterator[Place]:
    """An API server with two users: one may do everything, the other little in one namespace."""
    server = ApiServer(authenticator=authenticator or Authenticator(TOKENS))
    await server.start()
    config = ClusterConfig(Cluster(server.url), ClusterUser(token=ADMIN))
    try:
        async with Client(config) as client:
            await _give_rights(client)
            yield Place(server, config, client)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def site(sign_in: SignIn, port: int = 0) -> AsyncIterator[str]:
    """A site of one page, which shows its user; the URL."""

    async def page(request: web.Request) -> web.Response:
        session = request[SESSION]
        if "ends" in request.query:
            sign_in.sessions.end(session)
            await asyncio.gather(*sign_in.sessions._closing)
        if "ask" in request.query:
            await session.client.raw("/version")
        await SignedIn().user(request, [Question("list", "", word) for word in request.query])
        text = f'{session.name} <input name="csrf" value="{session.csrf}">'
        return web.Response(text=text, content_type="text/html")

    async def write(request: web.Request) -> web.Response:
        return web.Response(text=f"{request[SESSION].name} wrote {(await request.post())['what']}")

    app = web.Application()
    sign_in.install(app)
    app.router.add_get("/{path:.*}", page)
    app.router.add_post("/{path:.*}", write)
    async with listening(app, "127.0.0.1", port, finish_seconds=1.0, cancels=True) as found:
        yield f"http://127.0.0.1:{found}"


def render(template: str, context: Mapping[str, object]) -> str:
    return _rendering().page(template, context)


@functools.cache
def _rendering() -> Rendering:
    return Rendering(Texts())


async def _give_rights(client: Client) -> None:
    metadata = {"name": "readers", "namespace": TEAM}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    subject = {"kind": "User", "name": "alice", "apiGroup": RBAC}
    role = {"apiGroup": RBAC, "kind": "Role", "name": "readers"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    await client.call("POST", "/api/v1/namespaces", None, namespace)
    root = f"/apis/{RBAC}/v1/namespaces/{TEAM}"
    await client.call("POST", f"{root}/roles", None, head | {"kind": "Role", "rules": rules})
    binding = {"kind": "RoleBinding", "roleRef": role, "subjects": [subject]}
    await client.call("POST", f"{root}/rolebindings", None, head | binding)
