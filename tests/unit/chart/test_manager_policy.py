"""The manager lets go of nodes that are being deleted, and changes nothing else of any."""

from __future__ import annotations

from typing import Any

import pytest

from support.policies import Policy, policies

MANAGER = "system:serviceaccount:harvester-system:laneway-manager"
OURS, OTHER = "wrangler.cattle.io/node-remove", "somebody/else"
GOING = "2026-11-22T00:00:00Z"


@pytest.fixture(scope="module")
def policy() -> Policy:
    [found] = [one for one in policies() if one.name == "laneway-manager-nodes"]
    return found


def node(*finalizers: str, going: str = GOING, spec: Any = None, **more: Any) -> Any:
    metadata = {"name": "node1", **more}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if going:
        metadata["deletionTimestamp"] = going
    return {"metadata": metadata, "spec": spec or {}}


def write(before: Any, after: Any, user: str = MANAGER) -> Any:
    return {
        "operation": "DELETE" if after is None else "CREATE" if before is None else "UPDATE",
        "name": "node1",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "subResource": "",
        "userInfo": {"username": user},
        "object": after,
        "oldObject": before,
    }


def test_a_cluster_takes_it(policy: Policy) -> None:
    policy.check()


@pytest.mark.parametrize(
    ("before", "after"), [(node(OURS), node()), (node(OTHER, OURS), node(OTHER))]
)
def test_it_lets_go(policy: Policy, before: Any, after: Any) -> None:
    request = write(before, after)

    assert policy.concerns(request)
    assert policy.verdict(request) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (node(OURS, going=""), node(going="")),
        (node(OURS, OTHER), node()),
        (node(OURS), node(OTHER)),
        (node(OURS), node(spec={"unschedulable": True})),
        (node(OURS), node(labels={"a": "b"})),
        (node(OURS, labels={"a": "b"}), node(labels={"a": "c"})),
        (node(OURS), node(annotations={"a": "b"})),
        (None, node(going="")),
        (node(), None),
    ],
)
def test_it_does_nothing_else(policy: Policy, before: Any, after: Any) -> None:
    said = policy.verdict(write(before, after))

    assert said == "the manager only lets go of nodes that are being deleted"


def test_others_are_not_concerned(policy: Policy) -> None:
    assert not policy.concerns(write(None, node(), "admin"))
