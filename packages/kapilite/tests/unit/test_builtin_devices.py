"""Requests for devices are filled in and refused as a real API server does."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite import builtin
from kapilite.printers import CELLS
from server_support.judged import KINDS, complete, refused

Object = dict[str, Any]


def test_a_claim_is_for_one_device_unless_it_says_otherwise() -> None:
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "gpu"}},
        {"name": "b", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [{"name": "d", "deviceClassName": "gpu"}]},
    ]
    given = {"devices": {"requests": requests}}
    found = complete("ResourceClaim", given)["spec"]["devices"]["requests"]
    assert (found[0]["exactly"]["allocationMode"], found[0]["exactly"]["count"]) == (
        "ExactCount",
        1,
    )
    assert "count" not in found[1]["exactly"]
    assert found[2]["firstAvailable"][0]["count"] == 1
    of_template = complete("ResourceClaimTemplate", {"spec": given})["spec"]["spec"]
    assert of_template["devices"]["requests"] == found
    assert (
        refused("ResourceClaim", given) == refused("ResourceClaimTemplate", {"spec": given}) == []
    )


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"name": ""}, "requests[0].name: Required value"),
        ({"name": "a"}, "exactly one of `exactly` or `firstAvailable` is required"),
        ({"name": "a", "exactly": {}}, "exactly.deviceClassName: Required value"),
        (
            {"name": "a", "exactly": {"deviceClassName": "g", "allocationMode": "Some"}},
            "Unsupported value",
        ),
        (
            {"name": "a", "exactly": {"deviceClassName": "g", "count": -1}},
            "must be greater than zero",
        ),
        (
            {"name": "a", "exactly": {"deviceClassName": "g", "selectors": [{}]}},
            "selectors[0].cel: Required value",
        ),
    ],
)
def test_a_claim_that_cannot_be_met_is_refused(request_: Object, text: str) -> None:
    found = refused("ResourceClaim", {"devices": {"requests": [request_]}})
    assert any(text in one for one in found), found


REQUESTS = [
    {"name": "gpu", "exactly": {"deviceClassName": "g"}},
    {"name": "any", "firstAvailable": [{"name": "small", "deviceClassName": "g"}]},
]
OPAQUE = {"driver": "x.example.com", "parameters": {"a": 1}}


def claiming(**more: Any) -> Object:
    return {"devices": {"requests": REQUESTS, **more}}


def test_a_claim_can_say_what_its_devices_have_in_common_and_how_they_are_set_up() -> None:
    constraints = [
        {"matchAttribute": "x.io/numa"},
        {"requests": ["gpu", "any/small"], "distinctAttribute": "x.io/slot"},
    ]
    config = [{"opaque": OPAQUE}, {"requests": ["any"], "opaque": OPAQUE}]
    spec = claiming(constraints=constraints, config=config)
    assert refused("ResourceClaim", spec) == []
    assert refused("ResourceClaimTemplate", {"spec": spec}) == []
    assert refused("DeviceClass", {"config": [{"opaque": OPAQUE}]}) == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"constraints": [{}]}, "constraints[0]: Required value"),
        ({"constraints": [{"matchAttribute": "numa"}]}, "a fully qualified name must be a domain"),
        ({"constraints": [{"matchAttribute": "x.io/a-b"}]}, "a valid C identifier"),
        (
            {"constraints": [{"requests": ["no"], "matchAttribute": "x.io/a"}]},
            "constraints[0].requests[0]: Invalid value",
        ),
        (
            {"constraints": [{"requests": ["gpu", "gpu"], "matchAttribute": "x.io/a"}]},
            "constraints[0].requests[1]: Duplicate value",
        ),
        ({"constraints": [{"matchAttribute": "x.io/a"}] * 33}, "constraints: Too many: 33"),
        ({"config": [{}]}, "config[0].opaque: Required value"),
        ({"config": [{"opaque": {"driver": "x.io"}}]}, "opaque.parameters: Required value"),
        ({"config": [{"opaque": OPAQUE | {"driver": ""}}]}, "opaque.driver: Required value"),
        ({"config": [{"opaque": OPAQUE | {"parameters": {"a": "x" * 10240}}}]}, "Too long"),
        ({"config": [{"requests": ["gpu/x"], "opaque": OPAQUE}]}, "config[0].requests[0]: Invalid"),
        ({"config": [{"opaque": OPAQUE}] * 33}, "config: Too many: 33"),
    ],
)
def test_a_claim_that_names_nothing_is_refused(more: Object, text: str) -> None:
    found = refused("ResourceClaim", claiming(**more))
    assert any(text in one for one in found), found


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        ({"operator": "Exists"}, ""),
        ({"key": "x.io/a", "operator": "Equal", "value": "b", "effect": "NoExecute"}, ""),
        ({"key": "a", "operator": "Exists", "value": "b"}, "value: Invalid value"),
        ({"key": "a b", "operator": "Exists"}, "key: Invalid value"),
        ({"operator": "Like"}, "operator: Unsupported value"),
        ({"operator": "Exists", "effect": "PreferNoSchedule"}, "effect: Unsupported value"),
    ],
)
def test_tolerations(toleration: Object, text: str) -> None:
    exactly = {"deviceClassName": "g", "tolerations": [toleration]}
    found = refused("ResourceClaim", {"devices": {"requests": [{"name": "a", "exactly": exactly}]}})
    assert [text in one for one in found] == ([True] if text else []), found


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("x.io/gpu", True),
        ("gpu", False),
        ("a.kubernetes.io/gpu", False),
        ("requests.x.io/a", False),
    ],
)
def test_the_resource_of_a_class_is_an_extended_one(name: str, fits: bool) -> None:
    assert (refused("DeviceClass", {"extendedResourceName": name}) == []) is fits


# ------------------------------------------------------------------------------- what a claim got

RESULT = {"request": "gpu", "driver": "x.io", "pool": "node1", "device": "d"}
USER = {"resource": "pods", "name": "p", "uid": "1"}
GOT: Object = {
    "allocation": {"devices": {"results": [RESULT]}},
    "reservedFor": [USER],
    "devices": [{"driver": "x.io", "pool": "node1", "device": "d"}],
}


def answered(status: Object, before: Object | None = None, **metadata: Any) -> list[str]:
    obj, old = complete("ResourceClaim", claiming()), complete("ResourceClaim", claiming())
    obj["status"], old["status"] = status, before or {}
    obj["metadata"] |= metadata
    assert builtin.complete(KINDS["ResourceClaim"], obj) == []
    found = builtin.problems(KINDS["ResourceClaim"], obj, old)
    return [f"{one.field}: {one.message}" for one in found]


def result(**changed: Any) -> Object:
    return {"allocation": {"devices": {"results": [RESULT | changed]}}}


def test_what_a_claim_got_is_taken_and_stays() -> None:
    assert answered(GOT) == []
    assert answered(GOT | {"reservedFor": []}, GOT) == []
    assert answered({}, GOT) == [], "it is free again"
    (found,) = answered(result(device="e"), GOT)
    assert found.startswith("status.allocation: Invalid value")
    assert found.endswith("field is immutable")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (result(request="no"), "results[0].request: Invalid value"),
        (result(driver=""), "results[0].driver: Required value"),
        (result(pool="a//b"), "results[0].pool: Invalid value"),
        (result(device="D"), "results[0].device: Invalid value"),
        (result(shareID="1"), "results[0].shareID: Invalid value"),
        ({"allocation": {"devices": {"results": [RESULT] * 33}}}, "results: Too many: 33"),
        (
            {"allocation": {"devices": {"config": [{"opaque": OPAQUE}]}}},
            "config[0].source: Required value",
        ),
        (
            {"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}},
            "at least one node selector term",
        ),
        ({"reservedFor": [USER]}, "reservedFor: Forbidden: may not be specified"),
        (GOT | {"reservedFor": [USER, USER]}, "reservedFor[1]: Duplicate value"),
        (GOT | {"reservedFor": [{"uid": "1"}]}, "reservedFor[0].name: Required value"),
        (
            {"devices": GOT["devices"]},
            'status.devices[0]: Invalid value: "x.io/node1/d": must be an allocated device',
        ),
    ],
)
def test_a_claim_that_could_not_have_got_this_is_refused(status: Object, text: str) -> None:
    found = answered(status)
    assert any(text in one for one in found), found


def test_a_claim_that_goes_gets_no_further_users() -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    more = GOT | {"reservedFor": [USER, USER | {"uid": "2"}]}
    assert answered(GOT | {"reservedFor": []}, GOT, **going) == []
    (found,) = answered(more, GOT, **going)
    assert found.startswith("status.reservedFor: Forbidden: new entries may not be added")


def test_what_is_claimed_stays() -> None:
    request_ = {"name": "a", "exactly": {"deviceClassName": "gpu"}}
    old: Object = {"devices": {"requests": [request_]}}
    found = refused("ResourceClaim", {"devices": {"requests": []}}, old)
    assert len(found) == 1
    assert found[0].endswith("field is immutable")


def test_a_claim_shows_how_far_it_is() -> None:
    state = CELLS["resourceclaims.resource.k8s.io", "State"]
    now: Any = None
    allocated = {"allocation": {"devices": {}}}
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert state({"metadata": {}}, now) == "pending"
    assert state({"metadata": {}, "status": allocated}, now) == "allocated"
    reserved = {**allocated, "reservedFor": [{"name": "p"}]}
    assert state({"metadata": gone, "status": reserved}, now) == "deleted,allocated,reserved"
