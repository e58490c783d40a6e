"""Over real connections: what passes the gate, as whom, and every way around it that we know of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kapilite import address
from kapilite.authn import USER, Authenticator, User
from kapilite.authorization import Authorizer, bootstrap, middleware
from kapilite.errors import ApiError
from kapilite.storage.events import Key
from kapilite.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
CONFIGMAPS = "/api/v1/namespaces/a/configmaps"
TOKENS = {
    "admin": User("admin", ("system:masters",)),
    "reader": User("reader"),
    "actor": User("actor"),
}


class Server:
    """Routes like those of the API server; the handler answers with what it was called for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.port = 0

    def grant(self, user: str, *rules: dict[str, Any], namespace: str = "") -> None:
        ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": user}
        subject = {"apiGroup": GROUP, "kind": "User", "name": user}
        binding = "rolebindings" if namespace else "clusterrolebindings"
        for resource, where, body in (
            ("clusterroles", "", {"rules": list(rules)}),
            (binding, namespace, {"roleRef": ref, "subjects": [subject]}),
        ):
            obj = {"apiVersion": f"{GROUP}/v1", "kind": "x", "metadata": {"name": user}, **body}
            self.store.commit("ADDED", Key(f"{resource}.{GROUP}", where, user), obj, None)

    async def ask(
        self, target: str, token: str = "", method: str = "GET", **headers: str
    ) -> tuple[int, Any]:
        """Send a request exactly as given; no client tidies up the path."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return await self.send(lines)

    async def send(self, lines: list[str]) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("localhost", self.port)
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await writer.drain()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split()[1]), json.loads(body) if body else None


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    store = Store(str(tmp_path / "db"))
    bootstrap.ensure(store)

    @web.middleware
    async def answer_errors(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.status(), status=error.code)

    async def page(request: web.Request) -> web.Response:
        return web.json_response({"user": request[USER].name, "groups": request[USER].groups})

    async def serve(request: web.Request) -> web.Response:
        match = request.match_info
        where = address.parse(match.get("group", ""), match["version"], match["rest"])
        return web.json_response(
            {
                "user": request[USER].name,
                "groups": request[USER].groups,
                "uid": request[USER].uid,
                "extra": {key: list(v) for key, v in request[USER].extra.items()},
                "where": where and where._asdict(),
            }
        )

    gate = middleware(Authenticator(TOKENS), Authorizer(store))
    app = web.Application(middlewares=[answer_errors, gate])
    for path in ("/healthz", "/version", "/api", "/apis/{group}", "/metrics"):
        app.router.add_get(path, page)
    app.router.add_route("*", "/api/{version}/{rest:.+}", serve)
    app.router.add_route("*", "/apis/{group}/{version}/{rest:.+}", serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "localhost", 0).start()
    server = Server(store)
    server.port = runner.addresses[0][1]
    server.grant(
        "reader",
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]},
        namespace="a",
    )
    yield server
    await runner.cleanup()
    store.close()


async def test_who_may_may(server: Server) -> None:
    code, body = await server.ask(f"{CONFIGMAPS}/x", "reader")
    assert (code, body["user"]) == (200, "reader")
    assert body["groups"] == ["system:authenticated"]
    assert body["where"]["name"] == "x"


async def test_a_user_without_the_right_gets_its_name(server: Server) -> None:
    code, body = await server.ask("/api/v1/namespaces/b/configmaps/x", "reader")
    assert code == 403
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "x" is forbidden: User "reader" cannot get resource "configmaps" '
        'in API group "" in the namespace "b"',
        "reason": "Forbidden",
        "details": {"name": "x", "kind": "configmaps"},
        "code": 403,
    }
    code, body = await server.ask("/apis/apps/v1/deployments", "reader")
    assert body["message"] == (
        'deployments.apps is forbidden: User "reader" cannot list resource "deployments" '
        'in API group "apps" at the cluster scope'
    )
    assert body["details"] == {"group": "apps", "kind": "deployments"}
    code, body = await server.ask("/metrics", "reader")
    assert body["message"] == 'forbidden: User "reader" cannot get path "/metrics"'


@pytest.mark.parametrize(
    "target",
    [
        # The collection, another object's part, another namespace, another kind.
        CONFIGMAPS,
        f"{CONFIGMAPS}?watch=1",
        f"{CONFIGMAPS}?watch=",
        f"{CONFIGMAPS}/",
        f"{CONFIGMAPS}/x/unknown",
        f"{CONFIGMAPS}/x/status",
        "/api/v1/configmaps",
        "/api/v1/namespaces/a",
        "/api/v1/namespaces/a/secrets/x",
        "/api/v1/namespaces/A/configmaps/x",
        "/api/v1/namespaces/a/Configmaps/x",
        # The same words, written so that some readers see other ones.
        "/api/v1/namespaces/a/configmaps/../secrets/x",
        "/api/v1/namespaces/a/configmaps/%2e%2e/secrets/x",
        "/api/v1/namespaces/a/configmaps/..%2fsecrets/x",
        "/api/v1/namespaces/a/configmaps/x/../../../b/secrets/x",
        "/api/v1/namespaces/a/configmaps/x%2F..%2F..%2Fsecrets%2Fx",
        "/api/v1/namespaces/a%2Fconfigmaps%2Fx/secrets/y",
        "/api/v1/namespaces/a//configmaps/x",
        "/api/v1//namespaces/a/configmaps/x",
        "/api/v1/namespaces/a/./configmaps/x",
        "/api/v1/namespaces/a/secrets/x?path=/api/v1/namespaces/a/configmaps/x",
        "/api/v1/namespaces/a/secrets/x#/../../configmaps/x",
        "/api/v1/namespaces/a/secrets/x;/../configmaps/x",
        "/api/v1/watch/namespaces/a/configmaps/x",
        "/api/v1/proxy/namespaces/a/configmaps/x",
        # What everybody may read begins with /api/ and /apis/, but is no resource.
        "/API/v1/namespaces/a/configmaps/x",
        "/api/v1/%73ecrets",
        "/api/v1/%2573ecrets",
        "/api%2Fv1/secrets",
        "/api/v1%2Fsecrets",
        "/apis/v1/secrets/x",
        "/apis/%2F/v1/secrets",
        "/apis/namespaces/v1/namespaces/a/status",
        "/./api/v1/secrets",
        "/healthz/../api/v1/secrets",
        "/healthz%2F..%2Fapi/v1/secrets",
        "//api/v1/secrets",
        "http://localhost/api/v1/secrets",
        "https://other/api/v1/namespaces/a/secrets/x",
    ],
)
async def test_no_path_leads_around_the_gate(server: Server, target: str) -> None:
    code, body = await server.ask(target, "reader")
    assert code in (400, 403, 404), (code, body)
    code, _ = await server.ask(target)
    assert code in (400, 401)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
async def test_no_method_leads_around_the_gate(server: Server, method: str) -> None:
    code, _ = await server.ask(f"{CONFIGMAPS}/x", "reader", method)
    assert code == 403
    for header in ("X_HTTP_Method_Override", "X_HTTP_Method", "X_Method_Override"):
        code, _ = await server.ask(f"{CONFIGMAPS}/x", "reader", method, **{header: "GET"})
        assert code == 403
    target = f"{CONFIGMAPS}/x?_method=GET&method=GET"
    assert (await server.ask(target, "reader", method))[0] == 403


async def test_a_header_gives_no_other_path(server: Server) -> None:
    for header in ("X_Original_URL", "X_Rewrite_URL", "X_Forwarded_Uri", "X_Forwarded_Prefix"):
        code, _ = await server.ask("/api/v1/secrets", "reader", **{header: f"{CONFIGMAPS}/x"})
        assert code == 403
        code, body = await server.ask(f"{CONFIGMAPS}/x", "reader", **{header: "/api/v1/secrets"})
        assert (code, body["where"]["plural"]) == (200, "configmaps")


async def test_head_needs_what_get_needs(server: Server) -> None:
    assert (await server.ask(f"{CONFIGMAPS}/x", "reader", "HEAD"))[0] == 200
    assert (await server.ask(CONFIGMAPS, "reader", "HEAD"))[0] == 403
    assert (await server.ask("/api/v1/secrets", "", "HEAD"))[0] == 401


async def test_what_the_routes_read_differently_goes_nowhere(server: Server) -> None:
    server.grant("actor", {"verbs": ["*"], "apiGroups": ["*"], "resources": ["namespaces/status"]})
    # Asked about is the namespace `a`; our routes would list things called `status` in it.
    code, _ = await server.ask("/apis/example.com/v1/namespaces/a/status", "actor")
    assert code == 404
    # Even who may do everything gets no answer to an ambiguous question.
    for target in ("//api/v1/pods", "/api/v1/x/../pods", "/api/v1/namespaces/a%2Fpods/x"):
        assert (await server.ask(target, "admin"))[0] == 404


async def test_an_escaped_name_is_that_name(server: Server) -> None:
    code, body = await server.ask(f"{CONFIGMAPS}/system%3Ax", "reader")
    assert (code, body["where"]["name"]) == (200, "system:x")
    code, body = await server.ask("/%61pi/v1/namespaces/a/config%6Daps/x", "reader")
    assert (code, body["where"]["plural"]) == (200, "configmaps")


async def test_strangers_see_what_everybody_may_see(server: Server) -> None:
    for path in ("/healthz", "/version"):
        code, body = await server.ask(path)
        assert (code, body) == (
            200,
            {"user": "system:anonymous", "groups": ["system:unauthenticated"]},
        )
    for path in ("/api", "/apis/apps", "/metrics", CONFIGMAPS, "/nowhere"):
        code, body = await server.ask(path)
        assert (code, body["message"]) == (401, "Unauthorized")


async def test_a_wrong_token_makes_no_stranger(server: Server) -> None:
    assert (await server.ask("/healthz", "wrong"))[0] == 401
    assert (await server.ask("/healthz", "reader"))[0] == 200
    head = ["GET /api HTTP/1.1", "Host: localhost", "Connection: close"]
    two = ["Authorization: Bearer reader", "Authorization: Bearer admin"]
    assert (await server.send([*head, *two]))[0] in (400, 401)


async def test_discovery_is_for_those_who_are_known(server: Server) -> None:
    assert (await server.ask("/api", "reader"))[0] == 200
    assert (await server.ask("/apis/apps", "reader"))[0] == 200


async def test_impersonation(server: Server) -> None:
    code, body = await server.ask(f"{CONFIGMAPS}/x", "admin", Impersonate_User="reader")
    assert (code, body["user"], body["groups"]) == (200, "reader", ["system:authenticated"])
    code, body = await server.ask("/api/v1/nodes", "admin", Impersonate_User="reader")
    assert code == 403  # nothing of the administrator is left
    code, body = await server.ask(
        f"{CONFIGMAPS}/x",
        "admin",
        impersonate_user="reader",
        Impersonate_Group="dev",
        Impersonate_Uid="7",
        **{"Impersonate-Extra-Acme.Com%2FScope": "one"},
    )
    assert code == 200
    assert (body["groups"], body["uid"]) == (["dev", "system:authenticated"], "7")
    assert body["extra"] == {"acme.com/scope": ["one"]}


async def test_impersonated_service_accounts_and_strangers(server: Server) -> None:
    robot = "system:serviceaccount:a:robot"
    server.grant(robot, {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]})
    code, body = await server.ask("/api/v1/nodes/x", "admin", Impersonate_User=robot)
    assert body["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:a",
        "system:authenticated",
    ]
    code, body = await server.ask("/version", "admin", Impersonate_User="system:anonymous")
    assert (code, body["groups"]) == (200, ["system:unauthenticated"])
    code, body = await server.ask("/api", "admin", Impersonate_User="system:anonymous")
    assert (code, body["message"]) == (
        403,
        'forbidden: User "system:anonymous" cannot get path "/api"',
    )


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"Impersonate_User": "admin"},
            (
                'users "admin" is forbidden: User "actor" cannot impersonate resource "users" '
                'in API group "" at the cluster scope'
            ),
        ),
        (
            {"Impersonate_User": "reader", "Impersonate_Group": "system:masters"},
            (
                'groups "system:masters" is forbidden: User "actor" cannot impersonate resource '
                '"groups" in API group "" at the cluster scope'
            ),
        ),
        (
            {"Impersonate_User": "reader", "IMPERSONATE_EXTRA_Scope": "all"},
            (
                'userextras.authentication.k8s.io "all" is forbidden: User "actor" cannot '
                'impersonate resource "userextras/scope" in API group "authentication.k8s.io" '
                "at the cluster scope"
            ),
        ),
        (
            {"Impersonate_User": "reader", "Impersonate_Uid": "1"},
            (
                'uids.authentication.k8s.io "1" is forbidden: User "actor" cannot impersonate '
                'resource "uids" in API group "authentication.k8s.io" at the cluster scope'
            ),
        ),
        (
            {"Impersonate_User": "system:serviceaccount:a:b"},
            (
                'serviceaccounts "b" is forbidden: User "actor" cannot impersonate resource '
                '"serviceaccounts" in API group "" in the namespace "a"'
            ),
        ),
    ],
)
async def test_each_part_of_another_identity_must_be_allowed(
    server: Server, headers: dict[str, str], message: str
) -> None:
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}
    server.grant("actor", rule | {"resourceNames": ["reader"]})
    assert (await server.ask(f"{CONFIGMAPS}/x", "actor", Impersonate_User="reader"))[0] == 200
    code, body = await server.ask(f"{CONFIGMAPS}/x", "actor", **headers)
    assert (code, body["message"]) == (403, message)


async def test_a_stranger_is_no_other_user(server: Server) -> None:
    code, _ = await server.ask("/version", Impersonate_User="admin")
    assert code == 401


async def test_parts_of_an_identity_need_a_name(server: Server) -> None:
    for header in ("Impersonate_Group", "Impersonate_Uid", "Impersonate_Extra_x"):
        assert (await server.ask("/api", "admin", **{header: "x"}))[0] == 400
