"""ResourceSlices are filled in and refused as a real API server does."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.builtin.filling import fill_in
from server_support.judged import KINDS, complete, refused

Object = dict[str, Any]


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


def shared(policy: Object, **more: Any) -> Object:
    """A slice of a device whose 8Gi are shared by this policy."""
    memory = {"value": "8Gi", "requestPolicy": policy}
    return spec(devices=[device(allowMultipleAllocations=True, capacity={"m": memory}, **more)])


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"default": "3Gi"},
        {"default": "2Gi", "validValues": ["1Gi", "2Gi", "8Gi"]},
        {"default": "2Gi", "validRange": {"min": "1Gi"}},
        {"default": "3Gi", "validRange": {"min": "1Gi", "max": "5Gi", "step": "2Gi"}},
    ],
)
def test_a_capacity_can_be_shared_by_a_policy(policy: Object) -> None:
    assert refused("ResourceSlice", shared(policy)) == []


RANGE = {"min": "1Gi", "max": "5Gi", "step": "2Gi"}


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"validValues": ["1Gi"]}, "default: Required value: required when validValues is defined"),
        ({"validRange": RANGE}, "default: Required value: required when validRange is defined"),
        (
            {"default": "1Gi", "validValues": ["1Gi"], "validRange": RANGE},
            "requestPolicy: Forbidden: exactly one policy can be specified",
        ),
        ({"default": "1Gi", "validValues": ["2Gi", "1Gi"]}, "validValues[1]: Invalid value"),
        ({"default": "1Gi", "validValues": ["1Gi", "1Gi"]}, "validValues[1]: Duplicate value"),
        ({"default": "1Gi", "validValues": ["1Gi", "9Gi"]}, "option is larger than capacity"),
        ({"default": "1Gi", "validValues": ["2Gi"]}, "default value is not valid"),
        ({"default": "1", "validValues": [str(n) for n in range(11)]}, "must have at most 10"),
        ({"default": "1Gi", "validRange": {}}, "validRange.min: Required value"),
        ({"default": "9Gi", "validRange": {"min": "9Gi"}}, "min is larger than capacity value"),
        ({"default": "1", "validRange": {"min": "2"}}, "default is less than min: 2"),
        ({"default": "3", "validRange": {"min": "3", "max": "2"}}, "min is larger than max: 2"),
        ({"default": "3", "validRange": {"min": "1", "max": "2"}}, "default is more than max: 2"),
        (
            {"default": "1Gi", "validRange": {"min": "1Gi", "max": "9Gi"}},
            "max is larger than capacity value: 8Gi",
        ),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, "must be greater than zero"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "8Gi"}}, "one step 9Gi is larger"),
        ({"default": "2Gi", "validRange": RANGE}, "not a multiple of a given step (2Gi)"),
        (
            {"default": "1Gi", "validRange": {**RANGE, "max": "4Gi"}},
            "not a multiple of a given step (2Gi) from (1Gi)",
        ),
    ],
)
def test_a_policy_by_which_nothing_could_be_requested_is_refused(policy: Object, text: str) -> None:
    found = refused("ResourceSlice", shared(policy))
    assert any(text in one for one in found), found
    assert all(one.startswith("spec.devices[0].capacity[m].requestPolicy") for one in found)


def test_what_only_one_claim_can_have_has_no_policy() -> None:
    one = {"capacity": {"m": {"value": "1", "requestPolicy": {}}}}
    (found,) = refused("ResourceSlice", spec(devices=[device(**one)]))
    assert found.endswith("requestPolicy: Forbidden: allowMultipleAllocations must be true")


@pytest.mark.parametrize(
    ("conditions", "failures", "where"),
    [
        (["a"], [], "bindingFailureConditions: Invalid"),
        ([], ["a"], "bindingConditions: Invalid"),
        (["a"], ["a"], "bindingFailureConditions[0]: Invalid"),
        (["a", "a"], ["b"], "bindingConditions[1]: Duplicate"),
        (["a"], ["b", "b"], "bindingFailureConditions[1]: Duplicate"),
        (["a b"], ["c"], "bindingConditions[0]: Invalid"),
        (["a"], ["c d"], "bindingFailureConditions[0]: Invalid"),
        (list("abcde"), ["f"], "bindingConditions: Too many: 5: must have at most 4 items"),
        (["f"], list("abcde"), "bindingFailureConditions: Too many: 5"),
    ],
)
def test_conditions_of_binding(conditions: list[str], failures: list[str], where: str) -> None:
    """A pod waits for some, and for no longer than until one of the others."""
    one = device(
        bindsToNode=True, bindingConditions=["a", "b.io/c"], bindingFailureConditions=["d"]
    )
    assert refused("ResourceSlice", spec(devices=[one])) == []
    changed = {"bindingConditions": conditions, "bindingFailureConditions": failures}
    (found,) = refused("ResourceSlice", spec(devices=[one | changed]))
    assert found.startswith(f"spec.devices[0].{where}")


def selecting(*, fields: bool = False, **requirement: Any) -> Object:
    where = "matchFields" if fields else "matchExpressions"
    return {"nodeSelectorTerms": [{where: [requirement]}]}


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (selecting(key="a", operator="In"), "values: Required value"),
        (selecting(key="a", operator="Exists", values=["b"]), "values: Forbidden"),
        (selecting(key="a", operator="Gt", values=["1", "2"]), "values: Required value"),
        (selecting(key="a", operator="Is", values=["b"]), "operator: Invalid value"),
        (selecting(key="a b", operator="Exists"), "key: Invalid value"),
        (selecting(key="a", operator="In", values=["b c"]), "values[0]: Invalid value"),
        (selecting(fields=True, key="a", operator="In", values=["b"]), "key: Invalid value"),
        (
            selecting(fields=True, key="metadata.name", operator="In", values=["B"]),
            "values[0]: Invalid value",
        ),
        (
            selecting(fields=True, key="metadata.name", operator="In", values=["b", "c"]),
            "values: Required value: must be only one value",
        ),
        (
            selecting(fields=True, key="metadata.name", operator="Gt", values=["1"]),
            "operator: Invalid value",
        ),
    ],
)
def test_a_selector_that_chooses_no_node_is_refused(selector: Object, text: str) -> None:
    right = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [{"key": "a.io/b", "operator": "Lt", "values": ["3"]}],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
            }
        ]
    }
    for_slice, for_device = spec(nodeName=None), spec(nodeName=None, perDeviceNodeSelection=True)
    assert refused("ResourceSlice", for_slice | {"nodeSelector": right}) == []
    assert refused("ResourceSlice", for_device | {"devices": [device(nodeSelector=right)]}) == []
    (found,) = refused("ResourceSlice", for_slice | {"nodeSelector": selector})
    assert text in found
    assert found.startswith("spec.nodeSelector.nodeSelectorTerms[0].")
    (found,) = refused("ResourceSlice", for_device | {"devices": [device(nodeSelector=selector)]})
    assert text in found
    assert found.startswith("spec.devices[0].nodeSelector.nodeSelectorTerms[0].")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, "spec.devices[0]: Required value: exactly one of `nodeName`"),
        ({"nodeName": ""}, "spec.devices[0].nodeName: Invalid value"),
        ({"allNodes": False}, "spec.devices[0].allNodes: Invalid value"),
        ({"nodeName": "b", "allNodes": True}, "{`nodeName`, `allNodes`}"),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, "at least one node selector term"),
    ],
)
def test_where_each_device_is_by_itself(where: Object, text: str) -> None:
    apart = spec(nodeName=None, perDeviceNodeSelection=True)
    assert refused("ResourceSlice", apart | {"devices": [device(nodeName="b")]}) == []
    found = refused("ResourceSlice", apart | {"devices": [device(**where)]})
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
