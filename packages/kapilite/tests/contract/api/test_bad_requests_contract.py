"""Requests that cannot be: the same code, the same reason, and mostly the same words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
NO_PATH = (404, "NotFound", "the server could not find the requested resource")
NO_METHOD = (
    405,
    "MethodNotAllowed",
    "the server does not allow this method on the requested resource",
)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothings",
        "/api/v1/namespaces/{ns}/nothings",
        "/api/v1/namespaces/{ns}/nothings/x",
        "/api/v1/namespaces/{ns}/configmaps/x/status",
        "/api/v1/namespaces/{ns}/configmaps/x/y/z",
        "/apis/apps/v1/namespaces/{ns}/nothings",
        "/apis/apps/v9/namespaces/{ns}/deployments",
        "/apis/nothing.example.com/v1/things",
        "/apis/nothing.example.com/v1",
        "/apis/nothing.example.com",
        "/api/v9",
        "/apis/contract.laneway.example/v1/namespaces/{ns}/gadgets",
        "/apis/contract.laneway.example/v9/gadgets",
    ],
)
async def test_a_path_that_leads_nowhere(kube: Any, gadgets: Any, path: str) -> None:
    answer = await kube.get(path.format(ns=kube.namespace))

    assert answer.status == 404
    if answer.headers["Content-Type"].startswith("application/json"):
        assert answer.refusal == NO_PATH
    else:
        assert answer.body == b"404 page not found\n"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/namespaces/{ns}/configmaps/x"),
        ("PUT", "/api/v1/namespaces/{ns}/configmaps"),
        ("PATCH", "/api/v1/namespaces/{ns}/configmaps"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        pytest.param("DELETE", "/api/v1/namespaces", marks=pytest.mark.whole_kubernetes),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ("DELETE", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("DELETE", "/api/v1/namespaces/{ns}/pods/x/status"),
        ("POST", "/api/v1/namespaces/{ns}/pods/x/status"),
    ],
)
async def test_a_method_that_a_path_has_not(kube: Any, gizmos: Any, method: str, path: str) -> None:
    answer = await kube.call(method, path.format(ns=kube.namespace), CONFIG)

    assert answer.refusal == NO_METHOD


async def test_a_custom_kind_says_so_too(kube: Any, gizmos: Any, gadgets: Any) -> None:
    for sub in ("status", "scale"):
        found = await kube.get(gadgets.path("x", sub))
        assert found.refusal == (404, "NotFound", f'gadgets.{gadgets.group} "x" not found')
    refused = await kube.delete(gizmos.path("x", "status"))
    assert refused.refusal == (
        405,
        "MethodNotAllowed",
        f'delete is not supported on resources of kind "gizmos.{gizmos.group}"',
    )


async def test_a_new_object_has_no_version(kube: Any) -> None:
    body = {**CONFIG, "metadata": {"name": "x", "resourceVersion": "5"}}

    refused = await kube.post(kube.of("configmaps").path(), body)

    assert refused.unwanted == "resourceVersion should not be set on objects to be created"


async def test_an_object_says_of_what_version_it_is(kube: Any, gizmos: Any) -> None:
    for missing in ("apiVersion", "kind"):
        body = {**gizmos.new("x", spec={}), missing: ""}
        assert (await kube.post(gizmos.path(), body)).unwanted


@pytest.mark.parametrize(
    "case",
    [
        (b"", 400, "BadRequest", ""),
        (b"{", 400, "BadRequest", ""),
        (b"[]", 400, "BadRequest", ""),
        (b'"text"', 400, "BadRequest", ""),
        (b"null", 422, "Invalid", "name or generateName is required"),
        ({**CONFIG, "kind": "Secret"}, 400, "BadRequest", ""),
        ({**CONFIG, "kind": "Nothing"}, 400, "BadRequest", "Nothing"),
        ({**CONFIG, "apiVersion": "v2"}, 400, "BadRequest", ""),
        ({**CONFIG, "apiVersion": "a/b/c"}, 400, "BadRequest", "a/b/c"),
        (
            {**CONFIG, "metadata": {"name": "x", "namespace": "elsewhere"}},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ({**CONFIG, "metadata": {"name": 1}}, 400, "BadRequest", ""),
        ({**CONFIG, "metadata": []}, 400, "BadRequest", ""),
        ({**CONFIG, "data": {"a": {}}}, 400, "BadRequest", ""),
        ({**CONFIG, "immutable": "yes"}, 400, "BadRequest", ""),
        ({**CONFIG, "metadata": {"name": "Upper"}}, 422, "Invalid", 'ConfigMap "Upper" is invalid'),
        pytest.param(
            ({**CONFIG, "data": {"a/b": ""}}, 422, "Invalid", 'data[a/b]: Invalid value: "a/b": '),
            marks=pytest.mark.whole_kubernetes,
        ),
        (
            {**CONFIG, "metadata": {"name": "x", "labels": {"a": "b c"}}},
            422,
            "Invalid",
            'metadata.labels: Invalid value: "b c": a valid label must be an empty string or',
        ),
    ],
)
async def test_a_body_that_is_no_configmap(kube: Any, case: tuple[Any, int, str, str]) -> None:
    body, code, reason, message = case

    answer = (await kube.post(kube.of("configmaps").path(), body)).refusal

    assert answer[:2] == (code, reason)
    assert message in answer[2]


@pytest.mark.parametrize(
    "case",
    [
        ({"kind": "Gadget"}, 422, "Invalid", 'kind: Invalid value: "Gadget": must be Gizmo'),
        ({"apiVersion": "contract.laneway.example/v2"}, 400, "BadRequest", ""),
        ({"kind": ""}, 400, "BadRequest", "Kind"),
        ({"metadata": {"name": "x", "namespace": "elsewhere"}}, 400, "BadRequest", "namespace"),
        (
            {"metadata": {"name": "Upper"}},
            422,
            "Invalid",
            'Gizmo.contract.laneway.example "Upper"',
        ),
        ({"metadata": {"name": 5}}, 400, "BadRequest", ""),
        ({"metadata": {"name": "x", "labels": {"a": 1}}}, 400, "BadRequest", ""),
        ({"metadata": "no"}, 400, "BadRequest", ""),
    ],
)
async def test_a_body_that_is_no_gizmo(
    kube: Any, gizmos: Any, case: tuple[Any, int, str, str]
) -> None:
    change, code, reason, message = case
    body = {**gizmos.new("x", spec={}), **change}

    answer = (await kube.post(gizmos.path(), body)).refusal

    assert answer[:2] == (code, reason), answer
    assert message in answer[2]


@pytest.mark.parametrize("plural", ["configmaps", "gizmos"])
async def test_a_put_is_for_the_name_in_its_path(kube: Any, plural: str) -> None:
    resource = await kube.shared("gizmos") if plural == "gizmos" else kube.of("configmaps")
    body = resource.new("x", spec={})
    (await kube.post(resource.path(), body)).ok

    answer = (await kube.put(resource.path("x"), {**body, "metadata": {"name": "y"}})).refusal

    assert answer == (
        400,
        "BadRequest",
        "the name of the object (y) does not match the name on the URL (x)",
    )


@pytest.mark.parametrize(
    ("content_type", "code"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("application/yaml", 400),
        ("text/html", 415),
        ("application/xml", 415),
    ],
)
async def test_the_content_type_counts(kube: Any, content_type: str, code: int) -> None:
    path = kube.of("configmaps").path()
    body = b"a: ["
    good = CONFIG if code == 201 else body

    assert (await kube.call("POST", path, good, headers={"Content-Type": content_type})).status == (
        code
    )


async def test_yaml_is_taken_and_given(kube: Any) -> None:
    path = kube.of("configmaps").path()
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 'yes'}\n"
    headers = {"Content-Type": "application/yaml", "Accept": "application/yaml"}

    made = await kube.call("POST", path, body, headers=headers)

    assert made.status == 201
    assert made.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(made.body)["data"] == {"a": "yes"}
    refused = await kube.call("POST", path, b"a: [", headers=headers)
    assert refused.status == 400


async def test_an_answer_that_cannot_be_given(kube: Any) -> None:
    answer = await kube.get(kube.of("configmaps").path(), accept="text/html")

    assert answer.refusal[:2] == (406, "NotAcceptable")


@pytest.mark.parametrize(
    "params",
    [
        {"limit": "many"},
        {"labelSelector": "a in ("},
        {"fieldSelector": "a"},
        {"fieldSelector": "spec.nothing=1"},
        {"resourceVersion": "abc"},
        {"continue": "abc"},
        {"resourceVersion": "0", "resourceVersionMatch": "Never"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"watch": "maybe", "limit": "x", "timeoutSeconds": "1"},
        {"watch": "1", "resourceVersion": "abc"},
    ],
)
@pytest.mark.parametrize("plural", ["configmaps", "gizmos"])
async def test_parameters_that_make_no_sense(
    kube: Any, plural: str, params: dict[str, str]
) -> None:
    resource = await kube.shared("gizmos") if plural == "gizmos" else kube.of("configmaps")

    answer = await kube.get(resource.path(), **params)

    assert answer.unwanted


@pytest.mark.parametrize(
    "params",
    [{"dryRun": "Some"}, {"dryRun": ""}, {"fieldManager": "x" * 129}, {"fieldManager": "a\nb"}],
)
async def test_options_of_a_write_that_make_no_sense(kube: Any, params: dict[str, str]) -> None:
    refused = await kube.post(kube.of("configmaps").path(), CONFIG, **params)

    assert refused.refusal[:2] == (422, "Invalid")


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Never"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        {"dryRun": ["Some"]},
        {"gracePeriodSeconds": "soon"},
        {"preconditions": "none"},
    ],
)
async def test_options_of_a_deletion_that_make_no_sense(kube: Any, options: dict[str, Any]) -> None:
    configmaps = kube.of("configmaps")
    (await kube.post(configmaps.path(), CONFIG)).ok

    refused = await kube.delete(
        configmaps.path("x"), {"kind": "DeleteOptions", "apiVersion": "v1", **options}
    )

    assert refused.unwanted
    assert (await kube.get(configmaps.path("x"))).status == 200


async def test_a_body_beyond_the_limit_is_refused(kube: Any) -> None:
    body = {**CONFIG, "data": {"a": "x" * (4 * 1024 * 1024)}}

    answer = (await kube.post(kube.of("configmaps").path(), body)).refusal

    assert answer == (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


async def test_an_object_in_no_namespace_is_not_made(kube: Any) -> None:
    answer = await kube.post("/api/v1/namespaces/none-such/configmaps", CONFIG)

    assert answer.refusal == (404, "NotFound", 'namespaces "none-such" not found')
