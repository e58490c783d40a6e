"""Whatever comes: an answer that is one, and never that the server failed."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import first, many
from support.reviewing import (
    MUTATION,
    VALIDATION,
    WebhookInThread,
    make_vm,
    odd_bodies,
    review,
    samples,
    well_formed,
)

PATHS = (MUTATION, VALIDATION)
SAMPLES = list(samples())
VERDICTS = (200, 400)

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just({"": None}),
    st.just([[[]]]),
    st.sampled_from(["-1", "node1", "node1-000001000", "0000:01:00.0", "CREATE", "True", "\x00"]),
)
JSON = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, the inner ones too."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


@st.composite
def spoilt_reviews(draw: st.DrawFn) -> dict[str, Any]:
    """A review as it should be, of any kind, and then some of it is not."""
    group, resource, sample = draw(st.sampled_from(SAMPLES))
    operation = draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", "", "create"]))
    asked = copy.deepcopy(review(resource, operation, sample, sample, group=group))
    asked["request"]["oldObject"] = copy.deepcopy(sample)
    for _ in range(draw(st.integers(0, 6))):
        found = sorted(places(asked), key=repr)
        put(asked, draw(st.sampled_from(found)), copy.deepcopy(draw(JSON)))
    return asked


def uid_of(asked: Any) -> str:
    request = asked.get("request") if isinstance(asked, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) else ""


def defects(webhook: WebhookInThread) -> float:
    return sum(
        sample.value
        for family in webhook.registry.collect()
        for sample in family.samples
        if sample.labels.get("outcome") == "failed"
    )


@given(spoilt_reviews(), st.sampled_from(PATHS))
@settings(
    max_examples=many(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_of_a_review_anything_may_be_anything(
    webhook: WebhookInThread, asked: dict[str, Any], path: str
) -> None:
    status, body = webhook.send(json.dumps(asked).encode(), path)
    assert status in VERDICTS, body
    well_formed(body, uid_of(asked))
    assert defects(webhook) == 0, asked


@given(JSON | st.binary(max_size=60), st.sampled_from(PATHS))
def test_a_body_may_be_anything(webhook: WebhookInThread, body: Any, path: str) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answer = webhook.send(sent, path)
    assert status == 400
    well_formed(answer, uid_of(body))


@pytest.mark.parametrize(("odd", "body"), list(odd_bodies()))
def test_odd_bodies_are_distinguished_from_reviews(
    webhook: WebhookInThread, odd: str, body: bytes
) -> None:
    status, answer = webhook.send(body)
    assert status == 400, odd
    assert well_formed(answer, "")["status"]["reason"] == "BadRequest"


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("operation", first("CREATE", "UPDATE", "DELETE"))
def test_every_field_may_be_null(webhook: WebhookInThread, path: str, operation: str) -> None:
    for group, resource, sample in SAMPLES:
        whole = review(resource, operation, sample, sample, group=group)
        for place in places(whole):
            asked = json.loads(json.dumps(whole))
            put(asked, place, None)
            status, body = webhook.send(msgspec.json.encode(asked), path)
            assert status in VERDICTS, place
            well_formed(body, uid_of(asked))
    assert defects(webhook) == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", ["admission.k8s.io/v2", "admission.k8s.io/v1alpha1", "v1", ""])
def test_an_unknown_version_is_no_question(
    webhook: WebhookInThread, path: str, version: str
) -> None:
    asked = review("virtualmachines", new=make_vm(), group="kubevirt.io", version=version)
    status, body = webhook.send(msgspec.json.encode(asked), path)
    assert status == 400
    assert "admission.k8s.io/v1" in well_formed(body, "7")["status"]["message"]


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_the_answer_has_the_version_of_the_question(webhook: WebhookInThread, version: str) -> None:
    asked = review("virtualmachines", new=make_vm(), group="kubevirt.io", version=version)
    status, body = webhook.send(msgspec.json.encode(asked))
    assert status == 200
    assert json.loads(body)["apiVersion"] == version
    assert well_formed(body, "7")["allowed"]


def test_the_last_of_two_equal_keys_counts(webhook: WebhookInThread) -> None:
    body = msgspec.json.encode(review("virtualmachines", new=make_vm(), group="kubevirt.io"))
    doubled = body.replace(b'"uid":"7"', b'"uid":"6","uid":"8"', 1)
    assert doubled != body
    status, answer = webhook.send(doubled)
    assert status == 200
    well_formed(answer, "8")


@pytest.mark.parametrize("path", PATHS)
def test_the_largest_objects_are_judged(webhook: WebhookInThread, path: str) -> None:
    """A request may have 3 MiB, and what is stored 1.5 MiB."""
    new, old = (make_vm(description="x" * size) for size in (3 << 20, 3 << 19))
    asked = review("virtualmachines", "UPDATE", new, old, group="kubevirt.io")
    assert webhook.ask(asked, path)["allowed"]


@pytest.mark.parametrize("path", PATHS)
def test_tens_of_thousands_of_devices_are_not_looked_at(
    webhook: WebhookInThread, path: str
) -> None:
    devices = [{"name": f"device-{n}", "deviceName": f"vendor.com/{n}"} for n in range(20_000)]
    asked = review("virtualmachines", new=make_vm("vm", *devices), group="kubevirt.io")
    (cause,) = webhook.ask(asked, path)["status"]["details"]["causes"]
    assert cause["reason"] == "TooManyDevices"


def test_a_body_that_is_too_large_is_not_read(webhook: WebhookInThread) -> None:
    status, _ = webhook.send(b" " * (5 << 20))
    assert status == 413


def test_other_methods_paths_and_types_are_reported(webhook: WebhookInThread) -> None:
    body = msgspec.json.encode(review("virtualmachines", new=make_vm(), group="kubevirt.io"))
    assert webhook.send(body, "/v1/webhook/other")[0] == 404
    assert webhook.send(body, "/")[0] == 404
    assert webhook.send(body, method="PUT")[0] == 405
    assert webhook.send(b"", method="GET")[0] == 405
    for kind in ("text/plain", "application/x-www-form-urlencoded", "nonsense"):
        assert webhook.send(body, headers={"Content-Type": kind})[0] == 415
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert webhook.send(gzip.compress(body), headers=packed)[0] == 415
    with_charset = {"Content-Type": "application/json; charset=utf-8"}
    assert webhook.send(body, headers=with_charset)[0] == 200


def test_a_client_that_goes_away_affects_no_others(webhook: WebhookInThread) -> None:
    for _ in range(20):
        connection = webhook.connect()
        connection.putrequest("POST", VALIDATION)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        connection.send(b'{"apiVersion":')
        connection.close()
    asked = review("virtualmachines", new=make_vm(), group="kubevirt.io")
    assert webhook.ask(asked)["allowed"]
