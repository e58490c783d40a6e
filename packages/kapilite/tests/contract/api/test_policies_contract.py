"""Policies about the network of pods: what is filled in, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.whole_kubernetes


def from_(*peers: Any, **rule: Any) -> dict[str, Any]:
    return {"ingress": [{"from": list(peers), **rule}]}


def ports(*ports: Any) -> dict[str, Any]:
    return {"ingress": [{"ports": list(ports)}]}


@pytest.mark.parametrize(
    ("given", "types"),
    [
        ({}, ["Ingress"]),
        ({"ingress": [{}]}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
async def test_what_a_policy_is_about(kube: Any, given: dict[str, Any], types: list[str]) -> None:
    policies = kube.of("networkpolicies")
    policy = policies.new("x", spec={"podSelector": {}, **given})

    made = (await kube.post(policies.path(), policy)).ok

    assert made["spec"]["policyTypes"] == types


async def test_a_port_is_one_of_tcp(kube: Any) -> None:
    policies = kube.of("networkpolicies")
    spec = {"podSelector": {}, **ports({"port": 443}, {"port": "https", "protocol": "UDP"})}

    made = (await kube.post(policies.path(), policies.new("x", spec=spec))).ok

    assert made["spec"]["ingress"][0]["ports"] == [
        {"port": 443, "protocol": "TCP"},
        {"port": "https", "protocol": "UDP"},
    ]


@pytest.mark.parametrize(
    ("spec", "field", "reason", "message"),
    [
        (from_({}), "from[0]", "FieldValueRequired", "must specify a peer"),
        (
            from_({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}),
            "from[0]",
            "FieldValueForbidden",
            "may not specify both ipBlock and another peer",
        ),
        (from_({"ipBlock": {"cidr": ""}}), "from[0].ipBlock.cidr", "FieldValueRequired", ""),
        (from_({"ipBlock": {"cidr": "10.0.0.0"}}), "from[0].ipBlock.cidr", "FieldValueInvalid", ""),
        (
            from_({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}),
            "from[0].ipBlock.except[0]",
            "FieldValueInvalid",
            "",
        ),
        (
            from_({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/33"]}}),
            "from[0].ipBlock.except[0]",
            "FieldValueInvalid",
            "",
        ),
        (ports({"port": 0}), "ports[0].port", "FieldValueInvalid", "between 1 and 65535"),
        (ports({"port": "no_name"}), "ports[0].port", "FieldValueInvalid", ""),
        (ports({"port": 1, "protocol": "FTP"}), "ports[0].protocol", "FieldValueNotSupported", ""),
        (
            from_({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "from[0].podSelector.matchExpressions[0].operator",
            "FieldValueInvalid",
            "not a valid selector operator",
        ),
    ],
)
async def test_a_policy_that_cannot_be(
    kube: Any, spec: dict[str, Any], field: str, reason: str, message: str
) -> None:
    policies = kube.of("networkpolicies")
    policy = policies.new("x", spec={"podSelector": {}, **spec})

    answer = await kube.post(policies.path(), policy)

    assert answer.refusal[:2] == (422, "Invalid")
    (cause,) = answer.causes
    assert cause[:2] == (f"spec.ingress[0].{field}", reason)
    assert message in cause[2]


async def test_a_policy_of_no_known_type_is_refused(kube: Any) -> None:
    policies = kube.of("networkpolicies")
    policy = policies.new("x", spec={"podSelector": {}, "policyTypes": ["Sideways"]})

    answer = await kube.post(policies.path(), policy)

    assert answer.refusal[:2] == (422, "Invalid")
    assert [cause[:2] for cause in answer.causes] == [
        ("spec.policyTypes[0]", "FieldValueNotSupported")
    ]


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ({"endPort": 5}, "may not be specified when `port` is not specified"),
        ({"port": "https", "endPort": 5}, "may not be specified when `port` is non-numeric"),
        ({"port": 10, "endPort": 5}, "must be greater than or equal to `port`"),
        ({"port": 10, "endPort": 70000}, "must be between 1 and 65535, inclusive"),
    ],
)
async def test_the_end_of_a_range_of_ports(kube: Any, port: dict[str, Any], message: str) -> None:
    kube.needs(25, "ranges of ports in policies")
    policies = kube.of("networkpolicies")
    policy = policies.new("x", spec={"podSelector": {}, **ports(port)})

    answer = await kube.post(policies.path(), policy)

    assert message in answer.refusal[2]


async def test_a_table_of_policies_shows_their_pods(kube: Any) -> None:
    policies = kube.of("networkpolicies")
    spec = {"podSelector": {"matchLabels": {"app": "web"}}}
    await kube.post(policies.path(), policies.new("x", spec=spec))

    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = (await kube.get(policies.path(), accept=accept)).ok

    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Pod-Selector",
        "Age",
    ]
    assert table["rows"][0]["cells"][:2] == ["x", "app=web"]
