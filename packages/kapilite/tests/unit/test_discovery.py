"""Discovery names every served resource, in the form and order that clients rely on."""

from __future__ import annotations

import random

import pytest

from kapilite.endpoints import discovery
from kapilite.errors import ApiError
from kapilite.kinds import Kind

NODE = Kind(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    singular="node",
    namespaced=False,
    short_names=("no",),
    has_status=True,
)
LEASE = Kind(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    singular="lease",
    namespaced=True,
)
DEVICES = [
    Kind(
        group="devices.example.com",
        version=version,
        kind="Device",
        plural="devices",
        singular="device",
        namespaced=False,
        categories=("all",),
        custom=True,
    )
    for version in ("v1beta1", "v2")
]
KINDS = [NODE, LEASE, *DEVICES]


def test_versions_come_in_the_order_of_kubernetes() -> None:
    ranked = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2"]
    ranked += ["foo1", "foo10", "v0"]
    shuffled = random.Random(1).sample(ranked, len(ranked))
    assert sorted(shuffled, key=discovery.version_priority) == ranked


def test_groups_keep_the_order_of_their_kinds_and_prefer_the_stable_version() -> None:
    groups = discovery.api_groups(KINDS)["groups"]
    assert [g["name"] for g in groups] == ["coordination.k8s.io", "devices.example.com"]
    devices = discovery.group(KINDS, "devices.example.com")
    assert [v["version"] for v in devices["versions"]] == ["v2", "v1beta1"]
    preferred = {"groupVersion": "devices.example.com/v2", "version": "v2"}
    assert devices["preferredVersion"] == preferred
    assert (devices["kind"], devices["apiVersion"]) == ("APIGroup", "v1")


def test_a_group_version_lists_its_resources_and_their_status() -> None:
    core = discovery.resources(KINDS, "", "v1")
    assert core["groupVersion"] == "v1"
    node, status = core["resources"]
    assert node["name"] == "nodes"
    assert node["singularName"] == "node"
    assert node["shortNames"] == ["no"]
    assert "categories" not in node
    assert set(node["verbs"]) >= {"get", "list", "watch", "create", "patch", "delete"}
    assert (status["name"], status["verbs"]) == ("nodes/status", ["get", "patch", "update"])
    devices = discovery.resources(KINDS, "devices.example.com", "v1beta1")
    assert [r["name"] for r in devices["resources"]] == ["devices"]
    assert devices["resources"][0]["categories"] == ["all"]


@pytest.mark.parametrize("name", ["", "nobody.example.com"])
def test_an_unknown_group_is_not_found(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        discovery.group(KINDS, name)
    assert caught.value.code == 404


@pytest.mark.parametrize(("name", "version"), [("", "v2"), ("devices.example.com", "v1")])
def test_an_unknown_version_is_not_found(name: str, version: str) -> None:
    with pytest.raises(ApiError) as caught:
        discovery.resources(KINDS, name, version)
    assert caught.value.code == 404


def test_the_aggregated_form_says_the_same_as_the_classic_one() -> None:
    classic = {
        (g, v, r["name"], r["kind"], r["namespaced"], tuple(r["verbs"]))
        for g, versions in discovery.group_versions(KINDS).items()
        for v in versions
        for r in discovery.resources(KINDS, g, v)["resources"]
    }
    aggregated = set()
    for core in (True, False):
        for item in discovery.aggregated(KINDS, core)["items"]:
            group = item["metadata"].get("name", "")
            assert (group == "") == core
            for entry in item["versions"]:
                for r in entry["resources"]:
                    common = (r["responseKind"]["kind"], r["scope"] == "Namespaced")
                    place = (group, entry["version"])
                    aggregated.add((*place, r["resource"], *common, tuple(r["verbs"])))
                    for sub in r.get("subresources", ()):
                        name = f"{r['resource']}/{sub['subresource']}"
                        aggregated.add((*place, name, *common, tuple(sub["verbs"])))
    assert aggregated == classic


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", None),
        ("application/json", None),
        ("*/*", None),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "v2"),
        (
            (
                "application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io,"
                "application/json"
            ),
            "v2beta1",
        ),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", None),
        (
            (
                "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList, "
                "application/json; g=apidiscovery.k8s.io; v=v2; as=APIGroupDiscoveryList"
            ),
            "v2",
        ),
        (
            "application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            None,
        ),
        (
            (
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;"
                "as=APIGroupDiscoveryList,application/json"
            ),
            None,
        ),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", None),
    ],
)
def test_the_form_follows_the_accept_header(accept: str, version: str | None) -> None:
    assert discovery.negotiate(accept) == version


def test_an_aggregated_answer_names_its_version() -> None:
    assert discovery.aggregated(KINDS, core=True, version="v2beta1")["apiVersion"] == (
        "apidiscovery.k8s.io/v2beta1"
    )
    assert discovery.negotiate(discovery.content_type("v2beta1")) == "v2beta1"
