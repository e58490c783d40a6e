"""The built-in kinds are decoded, filled in and checked as a real API server does it."""

from __future__ import annotations

import base64
import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import builtin
from kapilite.builtin import convert
from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.schemas import validation
from kubebasics import quantity

KINDS = {kind.kind: kind for kind in builtin.KINDS if kind.group != "events.k8s.io"}
NEW_EVENT = next(kind for kind in builtin.KINDS if kind.group == "events.k8s.io")


def complete(kind: str, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    obj = copy.deepcopy(obj)
    unknown = builtin.complete(KINDS[kind], obj)
    return obj, unknown


def refused(kind: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    found, _ = complete(kind, {"metadata": {"name": "x", "namespace": "default"}} | obj)
    return [
        f"{problem.field}: {problem.message}"
        for problem in builtin.problems(KINDS[kind], found, old)
    ]


def pod(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "image": "x:1"}], **more}


def deployment(labels: dict[str, str], selector: dict[str, str], **more: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": pod()}
    return {"spec": {"selector": {"matchLabels": selector}, "template": template, **more}}


def test_what_is_unknown_is_dropped_and_named() -> None:
    obj = {"spec": pod(extra=1, volumes=[{"name": "v", "emptyDirr": {}}]), "more": {}}
    found, unknown = complete("Pod", obj)
    assert sorted(unknown) == ["more", "spec.extra", "spec.volumes[0].emptyDirr"]
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_a_pod_gets_its_defaults() -> None:
    spec = complete("Pod", {"spec": pod(nodeName="", tolerations=None)})[0]["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert "nodeName" not in spec
    assert "tolerations" not in spec
    container = spec["containers"][0]
    assert (container["imagePullPolicy"], container["resources"]) == ("IfNotPresent", {})


def test_a_container_has_claims_of_its_pod_only() -> None:
    container = {"name": "a", "image": "x:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu"}]}
    assert refused("Pod", {"spec": spec}) == []
    (found,) = refused("Pod", {"spec": {"containers": [container]}})
    assert found.startswith('spec.containers[0].resources.claims[0]: Not found: "gpu": must be one')


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("device.driver == 'gpu.example.com'", ""),
        ("device.attributes['gpu.example.com'].model == 'A2'", ""),
        ("device.capacity['gpu.example.com'].memory.compareTo(quantity('4Gi')) >= 0", ""),
        ("device.driver ==", "compilation failed"),
        ("device.drivers == 'x'", "compilation failed"),
        ("device.driver", "must evaluate to bool"),
    ],
)
def test_a_class_chooses_devices_by_an_expression_that_compiles(
    expression: str, verdict: str
) -> None:
    found = refused("DeviceClass", {"spec": {"selectors": [{"cel": {"expression": expression}}]}})
    assert (verdict in found[0]) if verdict else (found == [])


def test_a_deployment_gets_its_defaults() -> None:
    found, _ = complete("Deployment", deployment({"a": "b"}, {"a": "b"}))
    assert found["spec"]["replicas"] == 1
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert found["spec"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert found["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert found["status"] == {}


@pytest.mark.parametrize(
    ("kind", "obj", "text"),
    [
        (
            "Deployment",
            {"spec": {"replicas": "two"}},
            "unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        ("Pod", {"spec": {"containers": {}}}, r"of type \[\]v1.Container"),
        ("Secret", {"data": {"a": "?"}}, "illegal base64 data"),
        (
            "Service",
            {"spec": {"ports": [{"port": 2**40}]}},
            "cannot unmarshal number 1099511627776",
        ),
        ("Lease", {"spec": {"renewTime": "soon"}}, 'parsing time "soon"'),
        (
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}},
            "quantities must match the regular expression",
        ),
    ],
)
def test_a_wrong_type_is_a_bad_request(kind: str, obj: dict[str, Any], text: str) -> None:
    with pytest.raises(ApiError, match=text) as caught:
        complete(kind, obj)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1500", "1500"),
        ("2000", "2k"),
        ("1e3", "1e3"),
        ("100000000Ki", "100000000Ki"),
        ("0", "0"),
        ("-0.1", "-100m"),
        ("1n", "1n"),
        ("0.1n", "1n"),
    ],
)
def test_a_quantity_has_one_form(given_: str, kept: str) -> None:
    assert quantity.canonical(given_) == kept


@given(
    st.from_regex(r"[+-]?[0-9]{1,12}(\.[0-9]{1,6})?([munkMGTPE]|[KMGTPE]i|e[0-9])?", fullmatch=True)
)
def test_the_one_form_is_kept_and_worth_the_same(text: str) -> None:
    once = quantity.canonical(text)
    assert quantity.canonical(once) == once
    assert quantity.value(once) == quantity.value(text)


def test_digits_are_those_of_ascii() -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        quantity.canonical("\u0663")


@given(st.text())
def test_a_text_is_a_quantity_or_is_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert quantity.canonical(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "template", "containers", "metadata", "ports", "name", "data"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


# The rules of definitions look at what was sent, and are tested on their own.
DECODED = sorted(KINDS.keys() - {"CustomResourceDefinition"})


@given(st.sampled_from(DECODED), st.dictionaries(st.sampled_from(["spec", "status"]), values))
def test_whatever_is_sent_is_refused_or_fits_the_schema(kind: str, body: dict[str, Any]) -> None:
    obj = {"metadata": {"name": "x", "namespace": "default", "uid": "1"}, **body}
    with contextlib.suppress(ApiError):
        builtin.complete(KINDS[kind], obj)
        once = copy.deepcopy(obj)
        assert builtin.complete(KINDS[kind], obj) == []
        assert obj == once
        assert validation.problems(KINDS[kind].schema or {}, obj) == []
        if not builtin.problems(KINDS[kind], obj, None):
            builtin.fill_in(KINDS[kind], obj, None)


@pytest.mark.parametrize(
    ("kind", "obj", "problem"),
    [
        (
            "Deployment",
            deployment({"a": "c"}, {"a": "b"}),
            'spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match',
        ),
        ("Deployment", {"spec": {"template": {}}}, "spec.selector: Required value"),
        ("Pod", {"spec": {}}, "spec.containers: Required value"),
        ("Pod", {"spec": pod(restartPolicy="Sometimes")}, "spec.restartPolicy: Unsupported value"),
        ("Service", {"spec": {}}, "spec.ports: Required value"),
        ("Service", {"spec": {"type": "Odd", "ports": [{"port": 1}]}}, "spec.type: Unsupported"),
        (
            "Service",
            {"spec": {"ports": [{"port": 1, "nodePort": 30001}]}},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            "Service",
            {
                "spec": {
                    "type": "NodePort",
                    "ports": [
                        {"name": "a", "port": 1, "nodePort": 30001},
                        {"name": "b", "port": 2, "nodePort": 30001},
                    ],
                }
            },
            "spec.ports[1].nodePort: Duplicate value: 30001",
        ),
        ("Secret", {"type": "kubernetes.io/tls"}, "data[tls.crt]: Required value"),
        ("ConfigMap", {"data": {"a b": ""}}, 'data[a b]: Invalid value: "a b": a valid config key'),
        ("Lease", {"spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds: Invalid"),
    ],
)
def test_what_is_refused(kind: str, obj: dict[str, Any], problem: str) -> None:
    assert any(found.startswith(problem) for found in refused(kind, obj))


def test_what_cannot_change() -> None:
    frozen = {"data": {"a": "1"}, "immutable": True, "metadata": {"name": "x"}}
    detail = "Forbidden: field is immutable when `immutable` is set"
    assert refused("ConfigMap", {"data": {"a": "2"}, "immutable": True}, frozen) == [
        f"data: {detail}"
    ]
    assert refused("ConfigMap", {"data": {"a": "1"}}, frozen) == [f"immutable: {detail}"]
    secret, _ = complete("Secret", {})
    assert refused("Secret", {"type": "a/b"}, secret) == [
        'type: Invalid value: "a/b": field is immutable'
    ]
    old, _ = complete("Deployment", deployment({"a": "b", "c": "d"}, {"a": "b"}))
    [found] = refused("Deployment", deployment({"a": "b", "c": "d"}, {"c": "d"}), old)
    assert found.startswith("spec.selector: Invalid value")
    assert found.endswith("field is immutable")


def test_a_pod_may_change_its_images_and_be_bound_once() -> None:
    old, _ = complete("Pod", {"spec": pod()})
    image = {"spec": {"containers": [{"name": "a", "image": "x:1", "imagePullPolicy": "Always"}]}}
    assert any("pod updates may not change" in found for found in refused("Pod", image, old))
    bound = {"spec": pod(nodeName="n1")}
    assert refused("Pod", bound, old) == []
    assert refused("Pod", {"spec": pod(nodeName="n2")}, complete("Pod", bound)[0]) != []


def filled(kind: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    found, _ = complete(kind, {"metadata": {"name": "x", "uid": "u"}} | obj)
    builtin.fill_in(KINDS[kind], found, old)
    return found


def test_a_secret_takes_texts() -> None:
    found = {"stringData": {"a": "text"}, "data": {"b": "AA==", "c": ""}}
    convert.take_in(KINDS["Secret"], found)
    assert found["data"] == {"a": base64.b64encode(b"text").decode(), "b": "AA==", "c": ""}
    assert "stringData" not in found
    wrong = {"stringData": {"a": 1}}
    convert.take_in(KINDS["Secret"], wrong)
    assert wrong == {"stringData": {"a": 1}}, "for the decoder to refuse"


def test_a_service_keeps_its_address() -> None:
    ports = [{"port": 80}]
    first = filled("Service", {"spec": {"type": "NodePort", "ports": ports}})
    again = filled("Service", {"spec": {"type": "NodePort", "ports": ports}}, first)
    assert first["spec"] == again["spec"]
    assert first["spec"]["ports"][0]["targetPort"] == 80
    assert first["spec"]["clusterIPs"] == [first["spec"]["clusterIP"]]
    assert filled("Service", {"spec": {"clusterIP": "None"}})["spec"]["clusterIP"] == "None"
    assert "clusterIP" not in filled("Service", {"spec": {"type": "ExternalName"}})["spec"]


@given(
    st.dictionaries(st.sampled_from(["message", "count", "reason", "source", "x"]), st.integers())
)
def test_an_event_is_the_same_in_both_groups(event: dict[str, Any]) -> None:
    stored = {"apiVersion": "v1", "kind": "Event", "metadata": {}, **event}
    view = convert.to_view(NEW_EVENT, stored)
    assert view["apiVersion"] == "events.k8s.io/v1"
    assert "message" not in view
    assert convert.to_storage(NEW_EVENT, view) == stored
    assert NEW_EVENT.view_of == KINDS["Event"].resource


def test_kinds_have_names_of_their_own() -> None:
    assert len({(k.group, k.plural) for k in builtin.KINDS}) == len(builtin.KINDS)
    assert all(isinstance(k, Kind) and k.schema for k in builtin.KINDS)
