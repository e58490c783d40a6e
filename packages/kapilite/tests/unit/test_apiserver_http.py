"""What every endpoint has in common: failures, limits, hostile input, health."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import address
from kapilite.encodings import negotiation
from kapilite.errors import ApiError
from kapilite.server import ApiServer, ListenError
from kapilite.storage.store import StoreError

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: Any, path: str) -> None:
    assert (await api("GET", path)).body == b"ok"
    verbose = (await api("GET", path, verbose="")).body.decode()
    assert "[+]store ok" in verbose
    assert f"{path[1:]} check passed" in verbose


async def test_a_server_that_cannot_read_its_store_is_not_healthy(
    api: Any, server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert server._store is not None
    server._store._db.execute("DROP TABLE event")
    reply = await api("GET", "/readyz")
    assert reply.status == 500
    assert b"[-]store failed" in reply.body
    assert (await api("GET", "/readyz/store")).status == 500
    assert (await api("GET", "/readyz/ping")).body == b"ok"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_a_single_check_can_be_requested(api: Any, path: str) -> None:
    for check in ("ping", "store"):
        reply = await api("GET", f"{path}/{check}")
        assert (reply.status, reply.body) == (200, b"ok")
    unknown = await api("GET", f"{path}/nothing")
    assert (unknown.status, unknown.body["reason"]) == (404, "NotFound")


async def test_the_root_names_the_paths_that_are_served(api: Any) -> None:
    paths = (await api("GET", "/")).body["paths"]
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/livez/ping", "/version"} <= {*paths}
    for path in paths:
        assert (await api("GET", path)).status == 200


async def test_version_is_one_that_clients_can_parse(api: Any) -> None:
    body = (await api("GET", "/version")).body
    assert body["gitVersion"].startswith(f"v{body['major']}.{body['minor']}.")


@pytest.mark.parametrize(
    ("machine", "name"), [("aarch64", "arm64"), ("x86_64", "amd64"), ("riscv64", "riscv64")]
)
async def test_the_version_names_the_platform_as_go_does(
    api: Any, monkeypatch: pytest.MonkeyPatch, machine: str, name: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert (await api("GET", "/version")).body["platform"] == f"linux/{name}"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v2/nodes", 404),
        ("GET", "/apis/nothing.example.com/v1/things", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/configmaps/a", 404),
        ("GET", "/api/v1/nodes/a/nothing", 404),
        ("GET", "/api/v1/nodes/a/status/more", 404),
        ("GET", "/api/v1//nodes", 404),
        ("GET", "/api/v1/nodes/%2e%2e%2fsecrets", 404),
        ("POST", "/api/v1/configmaps", 405),
        ("POST", "/api/v1/nodes/a", 405),
        ("PUT", "/api/v1/nodes", 405),
        ("DELETE", "/api/v1/nodes/a/status", 405),
        ("POST", "/version", 405),
    ],
)
async def test_every_failure_is_a_status(api: Any, method: str, path: str, status: int) -> None:
    reply = await api(method, path)
    assert reply.status == status
    assert (reply.body["kind"], reply.body["status"]) == ("Status", "Failure")
    assert reply.body["code"] == status


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 422),
        (b"", "application/json", 400),
        (b'{"metadata": []}', "application/json", 400),
        (b'{"metadata": {"name": 5}}', "application/json", 400),
        (b'{"metadata": {"name": "a\\u0000"}}', "application/json", 422),
        (b'{"metadata": {}}', "application/json", 422),
        (b'{"metadata": {"name": "a"}, "data": {"x": "\xff"}}', "application/json", 400),
        (b'{"metadata": {"name": "a"}, "data": {"x": "\\ud800"}}', "application/json", 400),
        (b'{"metadata": {"name": "a"}, "data": {"x": 1}}', "application/json", 400),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "application/json", 400),
        (b"[" * 5_000, "application/yaml", 400),
        (b"a: &a [x, x]\nb: *a\n", "application/yaml", 400),
        (b"? [a]\n: b", "application/yaml", 400),
        (b"metadata: !!set {name}", "application/yaml", 400),
        (b"metadata: {name: a, labels: !!set {x}}", "application/yaml", 400),
        (b"metadata: {name: a}\ndata: {x: !!binary aGk=}", "application/yaml", 400),
        (b"!!python/object:os.system {}", "application/yaml", 400),
        (b"\xff\xff", "application/yaml", 400),
        (b"metadata: {name: a}\ndata: 0x" + b"f" * 5_000, "application/yaml", 400),
        (b"metadata: {name: a}\ndata: " + b"1:" * 200_000 + b"1.5", "application/yaml", 400),
        (b"k8s\x00\x0a", "application/vnd.kubernetes.protobuf", 400),
        (b"<a/>", "text/xml", 415),
    ],
)
async def test_a_bad_body_is_the_clients_error(
    api: Any, body: bytes, content_type: str, status: int
) -> None:
    reply = await api("POST", CONFIGMAPS, body, content_type=content_type)
    assert reply.status == status, reply.body
    assert reply.body["kind"] == "Status"
    assert (await api("GET", CONFIGMAPS)).body["items"] == []


def box(name: str, spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "lab.example.com/v1", "kind": "Box"}
    return {**head, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def boxes(api: Any) -> str:
    """A custom kind that keeps whatever it is given."""
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_}}
    crd = {
        "metadata": {"name": "boxes.lab.example.com"},
        "spec": {
            "group": "lab.example.com",
            "names": {"kind": "Box", "plural": "boxes"},
            "scope": "Cluster",
            "versions": [version],
        },
    }
    assert (
        await api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    ).status == 201
    return "/apis/lab.example.com/v1/boxes"


async def test_nothing_is_stored_that_cannot_be_read_again(api: Any, boxes: str) -> None:
    def deep(depth: int) -> bytes:
        spec = b'{"a":' * depth + b"1" + b"}" * depth
        return msgspec.json.encode(box("p", msgspec.Raw(spec)))

    for depth in (200, 400, 900):
        refused = await api("POST", boxes, deep(depth))
        assert refused.status == 400
        assert "nested" in refused.body["message"]
    assert (await api("POST", boxes, deep(190))).status == 201
    read = await api("GET", f"{boxes}/p", headers={"Accept": "application/yaml"})
    assert read.status == 200
    assert (await api.patch(f"{boxes}/p", {"metadata": {"labels": {"a": "b"}}})).status == 200
    copies = [{"op": "copy", "from": "/spec", "path": "/spec" + "/a" * 190}]
    for change, kind in ((copies, "json-patch"), (deep(900), "merge-patch")):
        refused = await api.patch(f"{boxes}/p", change, kind)
        assert refused.status in (400, 422)
        assert "nested" in refused.body["message"]


async def test_a_value_lies_below_short_keys(api: Any, boxes: str) -> None:
    # Each of these numbers would be told of with the keys above it.
    numbers = dict.fromkeys(map(str, range(20_000)), 1)
    refused = await api("POST", boxes, box("k", {"a": {"k" * 100_000: numbers}}))
    assert refused.status == 400
    assert "keys" in refused.body["message"]
    assert (await api("POST", boxes, box("k", {"k" * 100_000: 1}))).status == 201


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "+protobuf"),
        (
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf,application/json",
            "+protobuf",
        ),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("", "application/json"),
    ],
)
async def test_the_openapi_document_comes_as_it_is_requested(
    api: Any, accept: str, kind: str
) -> None:
    address = f"{api.url}/openapi/v2"
    async with api.session.get(address, headers={"Accept": accept}) as reply:
        assert reply.status == 200
        assert kind in reply.headers["Content-Type"]
        assert await reply.read()


async def test_an_object_cannot_grow_without_end(api: Any, boxes: str) -> None:
    await api("POST", boxes, box("a", {}))
    for part in "abcde":
        last = await api.patch(f"{boxes}/a", {"spec": {part: "z" * 900_000}})
    assert last.status == 413
    assert sorted((await api("GET", f"{boxes}/a")).body["spec"]) == list("abcd")


async def test_a_huge_body_is_refused(api: Any) -> None:
    big = io.BytesIO(b'{"metadata": {"name": "a"}, "data": {"x": "' + b"y" * 4_000_000 + b'"}}')
    async with api.session.post(api.url + CONFIGMAPS, data=big) as response:
        assert response.status == 413
        assert (await response.json())["reason"] == "RequestEntityTooLarge"


async def test_a_body_that_ends_too_early_changes_nothing(api: Any, server: ApiServer) -> None:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    head = f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head.encode() + b'20\r\n{"metadata":{"name":"a"}')
    writer.write_eof()
    await reader.read()
    writer.close()
    assert (await api("GET", CONFIGMAPS)).body["items"] == []


@pytest.mark.parametrize(
    "params",
    [
        {"limit": "x"},
        {"limit": "9" * 30},
        {"resourceVersion": "x", "watch": "1"},
        {"timeoutSeconds": "soon", "watch": "1"},
        {"fieldSelector": "spec.x=1"},
    ],
)
async def test_bad_parameters_are_named(api: Any, params: dict[str, str]) -> None:
    reply = await api("GET", "/api/v1/nodes", **params)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


async def test_bad_write_parameters(api: Any) -> None:
    body = {"metadata": {"name": "a"}}
    assert (await api("POST", CONFIGMAPS, body, dryRun="Some")).status == 422
    assert (await api("POST", CONFIGMAPS, body, fieldValidation="Some")).status == 422
    await api("POST", CONFIGMAPS, body)
    policy = {"propagationPolicy": "Some"}
    assert (await api("DELETE", f"{CONFIGMAPS}/a", **policy)).status == 422
    assert (await api("DELETE", f"{CONFIGMAPS}/a", {"preconditions": 5})).status == 400


async def test_a_form_that_no_handler_makes_is_not_acceptable(api: Any) -> None:
    reply = await api("GET", "/api/v1/nodes", headers={"Accept": "application/cbor"})
    assert reply.status == 406


async def test_an_unforeseen_failure_is_logged_and_not_shown(
    api: Any, server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert server._store is not None

    def broken(*_: object) -> None:
        raise ZeroDivisionError("inner secret")

    monkeypatch.setattr(server._store, "get", broken)
    with caplog.at_level(logging.ERROR):
        reply = await api("GET", "/api/v1/nodes/a")
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert "inner secret" not in reply.body["message"]
    assert "inner secret" in caplog.text


async def test_a_port_in_use_is_one_clear_error(server: ApiServer, tmp_path: Path) -> None:
    second = ApiServer(str(tmp_path / "other.db"), port=server.port)
    with pytest.raises(ListenError, match=f"127.0.0.1:{server.port} is in use.*another port"):
        await second.start()
    third = ApiServer(str(tmp_path / "other.db"))
    await third.start()  # the store was released
    await third.stop()


async def test_a_store_in_use_is_one_clear_error(server: ApiServer, tmp_path: Path) -> None:
    second = ApiServer(str(tmp_path / "state.db"))
    with pytest.raises(StoreError, match="in use by another process"):
        await second.start()


@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/yaml"]))
def test_decoding_is_total(body: bytes, media_type: str) -> None:
    with contextlib.suppress(ApiError):
        negotiation.decode(body, media_type)


@given(st.text(), st.text(), st.text())
def test_any_path_is_an_address_or_none(group: str, version: str, rest: str) -> None:
    found = address.parse(group, version, rest)
    assert found is None or found.plural


def test_addresses() -> None:
    parse = address.parse
    assert parse("", "v1", "namespaces/a") == ("", "v1", "", "namespaces", "a", "")
    assert parse("", "v1", "namespaces/a/status") == ("", "v1", "", "namespaces", "a", "status")
    assert parse("", "v1", "namespaces/a/pods") == ("", "v1", "a", "pods", "", "")
    assert parse("g", "v1", "namespaces/a/x/b/status") == ("g", "v1", "a", "x", "b", "status")
    assert parse("g", "v1", "x/b/status/more") is None
