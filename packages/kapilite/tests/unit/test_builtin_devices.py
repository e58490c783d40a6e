"""Requests for devices are filled in and refused as a real API server does."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.printers import CELLS
from server_support.judged import complete, refused

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
