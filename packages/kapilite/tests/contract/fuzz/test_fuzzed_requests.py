"""Whatever is sent, the server answers, says what is wrong with it, and stores all or nothing.

Schemathesis makes requests from the server's own OpenAPI documents, good ones and bad ones. `make
test` sends a few; `LANEWAY_FUZZ` says how many.
"""

from __future__ import annotations

import gzip
import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

REQUESTS = int(os.environ.get("LANEWAY_FUZZ", "60"))
NAMESPACE = "fuzz"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = {"Content-Type": "application/json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
WRITES = {"json": ("POST", PATH), "yaml": ("POST", PATH), "vnd.kubernetes.protobuf": ("POST", PATH)}
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")


@pytest.fixture(scope="module")
def operations(server: Any) -> list[Any]:
    server.call("POST", "/api/v1/namespaces", json={"metadata": {"name": NAMESPACE}})
    server.call("POST", PATH, json={"metadata": {"name": "kept"}, "data": {"a": "b"}})
    found = []
    for group in server.call("GET", "/openapi/v3").json()["paths"].values():
        document = server.call("GET", group["serverRelativeURL"]).json()
        schema = schemathesis.openapi.from_dict(document)
        found += [operation.ok() for operation in schema.get_all_operations()]
    return found


def require_answer(server: Any, response: Any) -> None:
    assert response.status_code < 500 or response.json()["reason"] == "Timeout", response.text
    if response.status_code >= 400 and response.request.method != "HEAD":
        status = response.json()
        assert (status["kind"], status["code"]) == ("Status", response.status_code)
    assert not server.failures


@pytest.mark.slow
@pytest.mark.parametrize("half", [1, 2])  # so that two processes can share the work
def test_requests_made_from_the_openapi_documents(
    server: Any,
    operations: list[Any],
    half: int,
) -> None:
    @settings(
        max_examples=REQUESTS // 2,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(operations), label="operation")
        mode = data.draw(st.sampled_from(GenerationMode))
        case = data.draw(operation.as_strategy(generation_mode=mode), label="request")
        if "namespace" in (case.path_parameters or {}):
            case.path_parameters["namespace"] = NAMESPACE
        if "watch" in case.query:
            case.query["timeoutSeconds"] = "1"
        try:
            sent = case.as_transport_kwargs(base_url=server.url)
            response = server.session.request(**sent, timeout=60)
        except (ValueError, UnicodeError):  # what the client refuses to send
            reject()
        require_answer(server, response)

    ask()
    assert server.call("GET", "/readyz").text == "ok"


NUMBERS = (b"9" * 5000, b"1e999", b"-1e999", b"NaN", b"!!int x", b"!!float x", b"1:" * 900 + b"1")
BODIES = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'"text"',
    b"\xff\xfe{}",
    b'{"metadata": {"name": "\xff"}}',
    b'{"metadata": {"name": "\\ud800"}}',
    b'{"metadata": {"name": "x", "annotations": {"a": "\\ud800"}}}',
    b"\0" * 100,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"metadata":' + b'{"a":' * 150 + b"1" + b"}" * 151,
    b'{"data":{' + b",".join(b'"%d":"x"' % n for n in range(100_000)) + b"}}",
    b"- " * 3000 + b"a",
    b"a: &a [*a]",
    b"a: !!python/object:os.system x",
    b"k8s\0" + b"\x18\x01" * 100_000,
    b"k8s\0\n\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b'{"data":"' + b"x" * 4_000_000 + b'"}',
    gzip.compress(b'{"metadata":{"name":"zipped"}}'),
    *(b'{"metadata": {"name": "n", "generation": %b}}' % number for number in NUMBERS),
    *(b"metadata: {name: n, generation: %b}" % number for number in NUMBERS),
]


@pytest.mark.slow
@pytest.mark.parametrize("media_type", [*WRITES, *PATCHES])
def test_bodies_that_are_no_objects(server: Any, operations: list[Any], media_type: str) -> None:
    method, path = WRITES.get(media_type, ("PATCH", f"{PATH}/kept?fieldManager=f"))
    before = server.call("GET", f"{PATH}/kept").json()
    names = server.objects(PATH).keys()
    for body in BODIES:
        response = server.call(
            method, path, data=body, headers={"Content-Type": f"application/{media_type}"}
        )
        require_answer(server, response)
        if response.status_code >= 400:
            assert server.call("GET", f"{PATH}/kept").json() == before, body[:100]
            assert server.objects(PATH).keys() == names, body[:100]
        before = server.call("GET", f"{PATH}/kept").json()
        names = server.objects(PATH).keys()


def definition(schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    names = {"plural": "bombs", "singular": "bomb", "kind": "Bomb"}
    wrapped = {"type": "object", "properties": {"spec": schema}}
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": wrapped}}
    return {
        "metadata": {"name": "bombs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": names,
            "versions": [first | version],
        },
    }


def choices(depth: int) -> dict[str, Any]:
    """Three to the power of the depth."""
    return {"anyOf": [choices(depth - 1)] * 3} if depth else {"minLength": 9}


def listed(**items: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"l": {"type": "array", "items": items}}}


TEXT = {"type": "object", "properties": {"s": {"type": "string"}}}
ROW = {f"b{n}": {"type": "string", "default": "x" * 10_000} for n in range(50)}
BOMBS = {
    "regular expression": (
        {"type": "object", "properties": {"s": {"type": "string", "pattern": "a[ab]{900}c"}}},
        {"s": "ab" * 1_000_000},
    ),
    "alternatives": (listed(type="string", **choices(8)), {"l": ["x"] * 2000}),
    "enumeration": (
        listed(type="string", enum=[f"e{n}" for n in range(9000)]),
        {"l": ["x"] * 9000},
    ),
    "defaults": (listed(type="object", properties=ROW), {"l": [{}] * 20_000}),
    "sets": (
        {
            "type": "object",
            "properties": {
                "l": {"type": "array", "items": {"type": "integer"}, "maxItems": 3000},
            },
            "x-kubernetes-validations": [{"rule": "sets.contains(self.l, self.l)"}],
        },
        {"l": list(range(3000))},
    ),
    "findings": (
        TEXT | {"x-kubernetes-validations": [{"rule": "self.s.findAll('a').size() > 0"}]},
        {"s": "a" * 2_000_000},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_definitions_whose_objects_would_take_minutes(server: Any, name: str) -> None:
    schema, spec = BOMBS[name]
    made = server.call("POST", CRDS, json=definition(schema))
    assert made.status_code == 201, made.text
    try:
        bomb = {"apiVersion": "example.com/v1", "kind": "Bomb", "metadata": {"name": "b"}}
        response = server.call("POST", "/apis/example.com/v1/bombs", json=bomb | {"spec": spec})
        assert response.status_code in (413, 422), response.text[:300]
        require_answer(server, response)
        assert len(response.content) < 1_000_000
        assert server.objects("/apis/example.com/v1/bombs") == {}
    finally:
        server.call("DELETE", f"{CRDS}/bombs.example.com")


@pytest.mark.parametrize("path", [".spec[?(@..b==1)]", ".spec..a..b"])
def test_columns_that_would_take_minutes_are_empty(server: Any, path: str) -> None:
    columns = [{"name": "c", "type": "string", "jsonPath": path}]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = definition(anything, additionalPrinterColumns=columns)
    made = server.call("POST", CRDS, json=crd)
    assert made.status_code == 201, made.text
    try:
        bomb = {"apiVersion": "example.com/v1", "kind": "Bomb", "metadata": {"name": "b"}}
        spec = {f"k{n}": [{"a": [{"b": n}] * 15}] * 20 for n in range(20)}
        bombs = "/apis/example.com/v1/bombs"
        assert server.call("POST", bombs, json=bomb | {"spec": spec}).status_code == 201
        table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        response = server.call("GET", bombs, headers=table)
        require_answer(server, response)
        [row] = response.json()["rows"]
        assert row["cells"] == ["b", None]
    finally:
        server.call("DELETE", f"{CRDS}/bombs.example.com")


@pytest.mark.slow
def test_a_long_list_is_merged_strategically_in_no_time(server: Any, operations: list[Any]) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    env = [{"name": f"E{n}", "value": "x"} for n in range(7000)]
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
    }
    assert server.call("POST", path, json=pod).status_code == 201
    patch = {"spec": {"containers": [{"name": "c", "env": env}]}}
    response = server.call("PATCH", f"{path}/p", json=patch, headers=STRATEGIC)
    assert response.status_code == 200, response.text[:300]


def test_a_host_that_is_none(server: Any) -> None:
    for host in ("", "a:99999999", "[::", "a b"):
        response = server.call("GET", "/.well-known/openid-configuration", headers={"Host": host})
        require_answer(server, response)
