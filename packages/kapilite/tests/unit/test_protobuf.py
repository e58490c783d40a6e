"""Protobuf bodies become the JSON objects that the same client would have sent."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import protobuf
from kapilite.errors import ApiError

# What `kubectl create` sent to a recording proxy.
NAMESPACE = "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhwKFAoEZGVtbxIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA=="
REVIEW = (
    "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSPAoQCgASABoAIgAq"
    "ADIAOABCABIeChwKB2RlZmF1bHQSA2dldBoAIgAqBHBvZHMyADoAGggIABIAGgAgABoAIgA="
)


def varint(value: int) -> bytes:
    found = b""
    value &= (1 << 64) - 1
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def body(api_version: str, kind: str, message: bytes) -> bytes:
    identity = field(1, api_version) + field(2, kind)
    return b"k8s\0" + field(1, identity) + field(2, message) + field(3, "") + field(4, "")


META = field(1, field(1, "x") + field(2, "") + field(8, b"") + field(15, ""))
"""Metadata with the empty values that Go writes, one of them long gone."""


def test_what_kubectl_sends() -> None:
    assert protobuf.decode(base64.b64decode(NAMESPACE)) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "demo"},
        "spec": {},
        "status": {},
    }


def test_what_auth_can_i_asks() -> None:
    asked = {"namespace": "default", "verb": "get", "resource": "pods"}
    review = protobuf.decode(base64.b64decode(REVIEW))
    assert (review["kind"], review["metadata"]) == ("SelfSubjectAccessReview", {})
    assert review["spec"] == {"resourceAttributes": asked}


def test_maps_bytes_and_texts() -> None:
    entry = field(1, "key") + field(2, b"\x00\xff")
    empty = field(1, "empty")
    message = META + field(2, entry) + field(2, empty) + field(3, "Opaque") + field(5, 0)
    assert protobuf.decode(body("v1", "Secret", message)) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x"},
        "data": {"key": "AP8=", "empty": ""},
        "type": "Opaque",
        "immutable": False,
    }


def test_numbers_times_and_quantities() -> None:
    spec = field(1, "me") + field(2, -1) + field(4, field(1, 1767323045) + field(2, 123456000))
    lease = protobuf.decode(body("coordination.k8s.io/v1", "Lease", META + field(2, spec)))
    assert lease["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": -1,
        "renewTime": "2026-01-02T03:04:05.123456Z",
    }
    port = field(2, "TCP") + field(3, 80) + field(4, field(1, 1) + field(2, 0) + field(3, "http"))
    service = protobuf.decode(body("v1", "Service", META + field(2, field(1, port))))
    assert service["spec"]["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": "http"}]
    limits = field(1, field(1, "cpu") + field(2, field(1, "500m")))
    pod = META + field(2, field(2, field(1, "a") + field(8, limits)))
    [container] = protobuf.decode(body("v1", "Pod", pod))["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "500m"}}


def test_what_is_inline_in_json_is_a_message_of_its_own() -> None:
    pod = META + field(2, field(1, field(1, "v") + field(2, field(1, field(1, "/dev")))))
    [volume] = protobuf.decode(body("v1", "Pod", pod))["spec"]["volumes"]
    assert volume == {"name": "v", "hostPath": {"path": "/dev"}}


def test_lists_within_maps() -> None:
    extra = field(5, field(1, "scopes") + field(2, field(1, "a") + field(1, "b")))
    message = META + field(2, field(3, "alice") + extra)
    review = protobuf.decode(body("authorization.k8s.io/v1", "SubjectAccessReview", message))
    assert review["spec"] == {"user": "alice", "extra": {"scopes": ["a", "b"]}}


def test_delete_options_come_in_any_group() -> None:
    message = field(4, "Background") + field(1, 0)
    for group in ("v1", "apps/v1", "meta.k8s.io/v1", "devices.example.com/v1beta1"):
        assert protobuf.decode(body(group, "DeleteOptions", message)) == {
            "apiVersion": group,
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "gracePeriodSeconds": 0,
        }


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b'{"kind": "Pod"}', "does not begin with the prefix k8s"),
        (body("v1", "Widget", b""), "v1 Widget is not known"),
        (body("v1", "ConfigMap", META + field(99, "lost?")), "has a field 99"),
        (body("v1", "ConfigMap", META)[:-8], "unexpected end"),
        (body("v1", "ConfigMap", field(1, 7)), "written as something else"),
        (body("v1", "ConfigMap", field(1, field(1, b"\xff"))), "not UTF-8"),
        (b"k8s\0" + b"\xff" * 12, "too long"),
    ],
)
def test_what_cannot_be_understood_is_refused_not_lost(sent: bytes, why: str) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        protobuf.decode(sent)
    assert caught.value.code == 400


def test_a_field_that_is_gone_may_be_there_if_it_is_empty() -> None:
    found = protobuf.decode(body("v1", "ConfigMap", META + field(99, "") + field(98, 0)))
    assert found["metadata"] == {"name": "x"}


@given(st.binary(max_size=200))
def test_no_bytes_break_the_server(raw: bytes) -> None:
    for sent in (raw, b"k8s\0" + raw, body("v1", "Pod", raw)):
        with contextlib.suppress(ApiError):
            protobuf.decode(sent)


@given(st.binary(min_size=1, max_size=6), st.integers(min_value=0, max_value=100))
def test_no_change_of_a_body_breaks_the_server(change: bytes, place: int) -> None:
    spec = field(2, field(2, field(1, "a") + field(8, field(1, field(1, "cpu")))))
    whole = body("v1", "Pod", META + spec)
    place %= len(whole)
    with contextlib.suppress(ApiError):
        protobuf.decode(whole[:place] + change + whole[place + len(change) :])


def nested(depth: int) -> Any:
    props = b""
    for _ in range(depth):
        props = field(24, field(1, props))
    version = field(1, "v1") + field(4, field(1, props))
    return body(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", META + field(2, field(7, version))
    )


def test_depth_is_bounded() -> None:
    assert protobuf.decode(nested(3))["kind"] == "CustomResourceDefinition"
    with pytest.raises(ApiError, match="nested"):
        protobuf.decode(nested(400))
