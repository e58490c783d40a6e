"""What is wrong with roles and bindings, in the words of a real server."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite import names
from kapilite.authorization.kinds import KINDS
from kapilite.authorization.validation import problems

GROUP = "rbac.authorization.k8s.io"
KIND = {kind.kind: kind for kind in KINDS}
VIEW = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}


def found(kind: str, body: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [f"{p.field}: {p.message}" for p in problems(KIND[kind], body, old)]


def binding(subject: dict[str, Any] | None = None, **ref: str) -> dict[str, Any]:
    return {"roleRef": {**VIEW, **ref}, "subjects": [subject] if subject is not None else None}


@pytest.mark.parametrize(
    ("kind", "rule", "expected"),
    [
        (
            "Role",
            {},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                (
                    "rules[0].apiGroups: Required value: "
                    "resource rules must supply at least one api group"
                ),
                (
                    "rules[0].resources: Required value: "
                    "resource rules must supply at least one resource"
                ),
            ],
        ),
        (
            "Role",
            {"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["x"]},
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: []string{"/a"}: '
                    "namespaced rules cannot apply to non-resource URLs"
                ),
                (
                    'rules[0].nonResourceURLs: Invalid value: []string{"/a"}: '
                    "rules cannot apply to both regular resources and non-resource URLs"
                ),
            ],
        ),
        ("ClusterRole", {"verbs": ["get"], "nonResourceURLs": ["/a"]}, []),
        ("Role", {"verbs": ["x"], "apiGroups": [""], "resources": ["pods/*"]}, []),
    ],
)
def test_rules(kind: str, rule: dict[str, Any], expected: list[str]) -> None:
    assert found(kind, {"rules": [rule]}) == expected
    assert found(kind, {"rules": None}) == []


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ([{"matchLabels": {"a": "b"}}], []),
        ([{}], []),
        (
            [],
            [
                (
                    "aggregationRule.clusterRoleSelectors: Required value: "
                    "at least one clusterRoleSelector required if aggregationRule is non-nil"
                )
            ],
        ),
        (
            [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}],
            [
                (
                    "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: "
                    'Invalid value: "Foo": not a valid selector operator'
                ),
                (
                    "aggregationRule.clusterRoleSelectors[0]: "
                    'Invalid value: "null": invalid label selector.'
                ),
            ],
        ),
    ],
)
def test_aggregation_rules(selectors: list[Any], expected: list[str]) -> None:
    assert (
        found("ClusterRole", {"aggregationRule": {"clusterRoleSelectors": selectors}}) == expected
    )


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("RoleBinding", binding(), []),
        (
            "RoleBinding",
            binding(apiGroup="x", kind="", name=""),
            [
                f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
                'roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"',
                "roleRef.name: Required value",
            ],
        ),
        (
            "RoleBinding",
            binding(name="a/b"),
            ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
        (
            "ClusterRoleBinding",
            binding(kind="Role"),
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
        ),
        (
            "RoleBinding",
            binding({}),
            [
                "subjects[0].name: Required value",
                (
                    'subjects[0].kind: Unsupported value: "": supported values: '
                    '"ServiceAccount", "User", "Group"'
                ),
            ],
        ),
        (
            "RoleBinding",
            binding({"kind": "User", "name": "x", "apiGroup": "y"}),
            [f'subjects[0].apiGroup: Unsupported value: "y": supported values: "{GROUP}"'],
        ),
        ("RoleBinding", binding({"kind": "ServiceAccount", "name": "x"}), []),
        (
            "ClusterRoleBinding",
            binding({"kind": "ServiceAccount", "name": "x"}),
            ["subjects[0].namespace: Required value"],
        ),
        (
            "RoleBinding",
            binding({"kind": "ServiceAccount", "name": "x", "apiGroup": "z"}),
            ['subjects[0].apiGroup: Unsupported value: "z": supported values: ""'],
        ),
    ],
)
def test_bindings(kind: str, body: dict[str, Any], expected: list[str]) -> None:
    assert found(kind, body) == expected


def test_the_name_of_a_service_account() -> None:
    (text,) = found("RoleBinding", binding({"kind": "ServiceAccount", "name": "B A"}))
    assert text.startswith('subjects[0].name: Invalid value: "B A": a lowercase RFC 1123 subdomain')


def test_a_binding_keeps_its_role() -> None:
    assert found("RoleBinding", binding(name="edit"), binding()) == [
        (
            f'roleRef: Invalid value: rbac.RoleRef{{APIGroup:"{GROUP}", Kind:"ClusterRole", '
            'Name:"edit"}: cannot change roleRef'
        )
    ]
    assert found("RoleBinding", binding(), binding()) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system:Node", []),
        ("a b", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/b%", ["may not contain '/'", "may not contain '%'"]),
    ],
)
def test_names_are_segments_of_paths(name: str, expected: list[str]) -> None:
    assert names.segment(name) == expected
