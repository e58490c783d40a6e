"""The kinds of dynamic resource allocation are filled in and refused as a real API server does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kapilite import builtin
from kapilite.builtin.filling import fill_in
from kapilite.printers import CELLS

KINDS = {kind.kind: kind for kind in builtin.KINDS if kind.group == "resource.k8s.io"}
Object = dict[str, Any]


def complete(kind: str, spec: Object) -> Object:
    obj = {"metadata": {"name": "x", "namespace": "default"}, "spec": copy.deepcopy(spec)}
    assert builtin.complete(KINDS[kind], obj) == []
    return obj


def refused(kind: str, spec: Object, old: Object | None = None) -> list[str]:
    before = complete(kind, old) if old is not None else None
    found = builtin.problems(KINDS[kind], complete(kind, spec), before)
    return [f"{problem.field}: {problem.message}" for problem in found]


def spec(**more: Any) -> Object:
    pool = {"name": "node1", "generation": 1, "resourceSliceCount": 1}
    return {"driver": "x.example.com", "pool": pool, "nodeName": "node1", **more}


def device(name: str = "a", **more: Any) -> Object:
    return {"name": name, **more}


def test_slices_of_devices_and_of_counters_are_taken() -> None:
    one = device(
        attributes={
            "resource.kubernetes.io/pciBusID": {"string": "0000:08:00.0"},
            "numaNode": {"int": 0},
            "firmware": {"version": "1.2.3-rc.1+b"},
            "display": {"bool": False},
        },
        capacity={"memory": {"value": "24Gi"}},
        consumesCounters=[{"counterSet": "card", "counters": {"parts": {"value": "1"}}}],
        taints=[{"key": "example.com/held", "effect": "NoSchedule"}],
    )
    assert refused("ResourceSlice", spec(devices=[one])) == []
    counters = [{"name": "card", "counters": {"parts": {"value": "4"}}}]
    assert refused("ResourceSlice", spec(sharedCounters=counters)) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"driver": ""}, "spec.driver: Required value"),
        ({"driver": "-x"}, "spec.driver: Invalid value"),
        ({"driver": "x" * 64}, "spec.driver: Too long"),
        ({"pool": {"name": "", "resourceSliceCount": 1}}, "spec.pool.name: Required value"),
        ({"pool": {"name": "a//b", "resourceSliceCount": 1}}, 'pool.name: Invalid value: ""'),
        ({"pool": {"name": "a"}}, "must be greater than zero"),
        ({"nodeName": None}, "spec: Required value: exactly one of `nodeName`"),
        ({"nodeName": ""}, "must be either unset or set to a non-empty string"),
        ({"allNodes": True}, "{`nodeName`, `allNodes`}"),
        ({"allNodes": False}, "must be either unset or set to true"),
        ({"nodeName": None, "nodeSelector": {}}, "exactly one node selector term"),
        ({"devices": [device("A")]}, "spec.devices[0].name: Invalid value"),
        ({"devices": [device(), device()]}, 'spec.devices[1]: Duplicate value: "a"'),
        ({"devices": [device(f"d{i}") for i in range(129)]}, "must have at most 128 items"),
        (
            {
                "devices": [
                    device(f"d{i}", taints=[{"key": "k", "effect": "None"}]) for i in range(65)
                ]
            },
            "must have at most 64 items",
        ),
        ({"devices": [device(attributes={"a-b": {"int": 1}})]}, "a valid C identifier"),
        ({"devices": [device(attributes={"/b": {"int": 1}})]}, "the domain must not be empty"),
        ({"devices": [device(attributes={"b/": {"int": 1}})]}, "the name must not be empty"),
        ({"devices": [device(attributes={"a/b/c": {"int": 1}})]}, "more than one slash"),
        ({"devices": [device(attributes={"x" * 33: {"int": 1}})]}, "Too long"),
        ({"devices": [device(attributes={"b": {}})]}, "exactly one value must be specified"),
        (
            {"devices": [device(attributes={"b": {"int": 1, "bool": True}})]},
            "exactly one value must be specified",
        ),
        ({"devices": [device(attributes={"b": {"string": "x" * 65}})]}, "more than 64 bytes"),
        ({"devices": [device(attributes={"b": {"version": "1.0"}})]}, "semver.org"),
        (
            {"devices": [device(attributes={f"a{i}": {"int": i} for i in range(33)})]},
            "attributes and capacities must not exceed 32",
        ),
        ({"devices": [device(nodeName="b")]}, "can only be set if `perDeviceNodeSelection`"),
        ({"devices": [device(taints=[{"key": "k"}])]}, "taints[0].effect: Required value"),
        ({"devices": [device(taints=[{"key": "k", "effect": "No"}])]}, "Unsupported value"),
        (
            {
                "devices": [
                    device(
                        consumesCounters=[
                            {"counterSet": f"s{i}", "counters": {"c": {"value": "1"}}}
                            for i in range(3)
                        ]
                    )
                ]
            },
            "must have at most 2 items",
        ),
        (
            {"devices": [device(consumesCounters=[{"counterSet": "s"}])]},
            "consumesCounters[0].counters: Required value",
        ),
        (
            {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}, {"name": "s"}]},
            'spec.sharedCounters[1]: Duplicate value: "s"',
        ),
        (
            {
                "sharedCounters": [
                    {"name": f"s{i}", "counters": {"c": {"value": "1"}}} for i in range(9)
                ]
            },
            "must have at most 8 items",
        ),
        (
            {
                "devices": [device()],
                "sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}],
            },
            "only one of `sharedCounters` or `devices` is allowed",
        ),
    ],
)
def test_a_slice_that_a_scheduler_could_not_use_is_refused(changed: Object, text: str) -> None:
    found = refused("ResourceSlice", spec(**changed))
    assert any(text in one for one in found), found


def test_whose_a_slice_is_stays() -> None:
    changed = spec(driver="y.example.com", nodeName="node2")
    changed["pool"] = {**changed["pool"], "name": "node2", "generation": 2}
    assert refused("ResourceSlice", changed, spec()) == [
        'spec.pool.name: Invalid value: "node2": field is immutable',
        'spec.driver: Invalid value: "y.example.com": field is immutable',
        'spec.nodeName: Invalid value: "node2": field is immutable',
    ]


def test_a_taint_gets_the_time_at_which_it_came_and_keeps_it() -> None:
    taint = {"key": "example.com/held", "effect": "NoSchedule"}
    first = complete("ResourceSlice", spec(devices=[device(taints=[taint])]))
    fill_in(KINDS["ResourceSlice"], first, None)
    given = first["spec"]["devices"][0]["taints"][0]["timeAdded"]
    assert given > "2020-01-01T00:00:00Z"
    first["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2020-01-01T00:00:00Z"
    again = complete("ResourceSlice", spec(devices=[device(taints=[taint, {**taint, "key": "b"}])]))
    fill_in(KINDS["ResourceSlice"], again, first)
    times = [one["timeAdded"] for one in again["spec"]["devices"][0]["taints"]]
    assert times[0] == "2020-01-01T00:00:00Z"
    assert times[1] > times[0]


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
