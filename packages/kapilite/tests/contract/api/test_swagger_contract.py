"""The Swagger document as protobuf: what Helm reads before it writes anything."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kapilite.protobuf import wire

ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PATHS, DEFINITIONS = 8, 9
PATH, PATCH, PARAMETERS = 2, 8, 8
DESCRIPTION, REQUIRED, TYPE, PROPERTIES, EXTENSION = 4, 19, 22, 25, 31


def parts(message: bytes, number: int) -> list[Any]:
    return [part.value for part in wire.fields(message) if part.number == number]


def named(message: bytes, number: int = 1) -> dict[str, bytes]:
    """A map, which gnostic writes as a list of names and values."""
    pairs = ({p.number: p.value for p in wire.fields(one)} for one in parts(message, number))
    return {pair[1].decode(): pair.get(2, b"") for pair in pairs}


@pytest.fixture
async def document(kube: Any) -> bytes:
    """As the server under test gives it."""
    answer = await kube.get("/openapi/v2", accept=ACCEPT)
    assert answer.status == 200, answer.body
    return bytes(answer.body)


async def test_a_definition_says_which_kind_it_is(document: bytes) -> None:
    (definitions,) = parts(document, DEFINITIONS)

    pod = named(definitions)["io.k8s.api.core.v1.Pod"]
    extensions = named(pod, EXTENSION)

    (text,) = parts(extensions["x-kubernetes-group-version-kind"], 2)
    assert yaml.safe_load(text) == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert parts(pod, DESCRIPTION)
    assert [parts(one, 1) for one in parts(pod, TYPE)] == [[b"object"]]


async def test_a_definition_has_its_properties(document: bytes) -> None:
    (definitions,) = parts(document, DEFINITIONS)
    found = named(definitions)

    spec = found["io.k8s.api.core.v1.PodSpec"]
    (properties,) = parts(spec, PROPERTIES)

    assert parts(spec, REQUIRED) == [b"containers"]
    assert {"containers", "hostPID", "nodeSelector", "volumes"} <= set(named(properties))
    (items,) = parts(named(properties)["containers"], 23)
    (container,) = parts(items, 1)
    assert parts(container, 1) == [b"#/definitions/io.k8s.api.core.v1.Container"]


async def test_a_map_says_what_is_in_it(document: bytes) -> None:
    (definitions,) = parts(document, DEFINITIONS)
    config = named(definitions)["io.k8s.api.core.v1.ConfigMap"]

    (properties,) = parts(config, PROPERTIES)
    (values,) = parts(named(properties)["data"], 21)
    (schema,) = parts(values, 1)

    assert [parts(one, 1) for one in parts(schema, TYPE)] == [[b"string"]]


@pytest.mark.whole_kubernetes
async def test_a_patch_says_that_it_can_be_tried(document: bytes) -> None:
    (paths,) = parts(document, PATHS)

    item = named(paths, PATH)["/api/v1/namespaces/{namespace}/configmaps/{name}"]
    (patch,) = parts(item, PATCH)
    names = set()
    for parameter in parts(patch, PARAMETERS):
        for inner in parts(parameter, 1):
            for other in parts(inner, 2):
                names |= {name for query in parts(other, 3) for name in parts(query, 4)}

    assert {b"dryRun", b"fieldManager"} <= names
