"""Which vCenters objects name, and with what credentials."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import ObjectMeta
from laneway.api.vsphere import VCenter, VCenterSecretRef, VCenterSpec
from laneway.kube.capv import ClusterSpec, IdentityReference, VSphereCluster
from laneway.kube.resource import Key
from laneway.vsphere.fleet.sources import sources

SECRET = IdentityReference(kind="Secret", name="creds")


def vcenter(name: str, server: str = "vc.example.com", **spec: Any) -> VCenter:
    ref = spec.pop("secret_ref", VCenterSecretRef(namespace="ops", name="login"))
    return VCenter(
        metadata=ObjectMeta(name=name), spec=VCenterSpec(server=server, secret_ref=ref, **spec)
    )


def cluster(
    name: str,
    server: str = "vc.example.com",
    identity: IdentityReference | None = SECRET,
    **meta: str,
) -> VSphereCluster:
    return VSphereCluster(
        metadata=ObjectMeta(**{"name": name, "namespace": "team", **meta}),
        spec=ClusterSpec(server=server, thumbprint="AB", identity_ref=identity),
    )


def test_an_object_names_its_secret_and_trust() -> None:
    found, again = sources([vcenter("main", "VC.example.com:443", thumbprint="AA")], [])
    source = found["main"]
    assert (source.server, source.secret, source.thumbprint) == (
        "vc.example.com",
        Key("ops", "login"),
        "AA",
    )
    assert (source.problem, again) == ("", {})


def test_a_cluster_counts_only_where_no_object_names_the_server() -> None:
    found, _ = sources([vcenter("main")], [cluster("one"), cluster("two", "https://other/sdk")])
    assert set(found) == {"main", "other"}
    assert found["other"].secret == Key("team", "creds")
    assert found["other"].thumbprint == "AB"


def test_no_cluster_takes_over_the_vcenter_of_an_older_one() -> None:
    older = cluster("z", creation_timestamp="2025-01-01T00:00:00Z")
    newer = cluster("a", namespace="other", creation_timestamp="2025-06-01T00:00:00Z")
    found, _ = sources([], [newer, older])
    assert found["vc.example.com"].secret == Key("team", "creds")


def test_a_cluster_that_says_no_way_to_log_in_keeps_no_other_from_it() -> None:
    older = cluster("a", identity=None, creation_timestamp="2025-01-01T00:00:00Z")
    newer = cluster("b", namespace="other", creation_timestamp="2025-06-01T00:00:00Z")
    found, _ = sources([], [older, newer])
    assert (found["vc.example.com"].secret, found["vc.example.com"].problem) == (
        Key("other", "creds"),
        "",
    )


def test_of_two_objects_with_one_server_the_first_by_name_counts() -> None:
    found, again = sources([vcenter("z", "https://vc.example.com"), vcenter("a")], [])
    assert set(found) == {"a"}
    assert "VCenter a" in again["z"]


def test_an_object_that_cannot_be_reached_still_stands_for_its_server() -> None:
    found, _ = sources([vcenter("main", secret_ref=VCenterSecretRef())], [cluster("one")])
    assert set(found) == {"main"}
    assert "secretRef" in found["main"].problem


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (None, "no Secret as spec.identityRef; create a VCenter object"),
        (IdentityReference(kind="VSphereClusterIdentity", name="x"), "VSphereClusterIdentity"),
        (IdentityReference(kind="Secret"), "identityRef"),
    ],
)
def test_a_cluster_with_another_identity_gets_a_remedy(
    identity: IdentityReference | None, words: str
) -> None:
    found, _ = sources([], [cluster("one", identity=identity)])
    assert words in found["vc.example.com"].problem
    assert "team/one" in found["vc.example.com"].problem


@pytest.mark.parametrize("server", ["", "a b", "a/../../b", "user@vc", "vc:99999999", "%2f", "-x"])
def test_what_is_no_server_is_not_tried(server: str) -> None:
    found, _ = sources([vcenter("main", server)], [])
    assert found["main"].problem or found["main"].server == "a"
    found, _ = sources([], [cluster("one", server)])
    assert all(one.problem or one.server == "a" for one in found.values())
