"""The fixtures of the pytest plugin, as a project uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kapilite.manifests import ManifestError
from kapilite.testclient import RequestError
from kapilite.testing import Cluster, Clusters

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest.mark.parametrize("_again", [1, 2])
def test_every_test_has_a_cluster_that_holds_nothing(
    kapilite_cluster: Cluster, _again: int
) -> None:
    assert kapilite_cluster.request("GET", CONFIGMAPS)["items"] == []
    kapilite_cluster.request("POST", CONFIGMAPS, config("a"))
    assert len(kapilite_cluster.request("GET", CONFIGMAPS)["items"]) == 1


async def test_tests_in_an_event_loop_reach_it_with_any_client(kapilite_cluster: Cluster) -> None:
    async with (
        aiohttp.ClientSession(headers=kapilite_cluster.headers) as session,
        session.get(
            f"{kapilite_cluster.url}{CONFIGMAPS}", ssl=kapilite_cluster.ssl_context()
        ) as answer,
    ):
        assert (answer.status, (await answer.json())["kind"]) == (200, "ConfigMapList")


def test_a_stranger_is_refused(kapilite_cluster: Cluster) -> None:
    stranger = Cluster(
        kapilite_cluster.url, "", kapilite_cluster.ca_file, "wrong", kapilite_cluster.contents
    )
    with pytest.raises(RequestError) as caught:
        stranger.request("GET", CONFIGMAPS)
    assert caught.value.code == 401


def test_clusters_begin_with_prepared_definitions_and_objects(
    kapilite_clusters: Clusters, tmp_path: Path, widget_crd: dict[str, Any]
) -> None:
    widget = {"apiVersion": "lab.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    text = "# first\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n--- # second\n"
    (tmp_path / "config.yaml").write_text(text)
    contents = kapilite_clusters.prepare([widget, tmp_path, widget_crd])
    for _ in range(2):
        with kapilite_clusters.start(contents) as cluster:
            widgets = "/apis/lab.example.com/v1/namespaces/default/widgets"
            [found] = cluster.request("GET", widgets)["items"]
            assert found["metadata"]["name"] == "w"
            cluster.request("DELETE", f"{widgets}/w")
            assert cluster.request("GET", f"{CONFIGMAPS}/a")["metadata"]["name"] == "a"


def test_what_cannot_be_applied_is_named(kapilite_cluster: Cluster, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [")
    with pytest.raises(ManifestError, match=r"bad\.yaml is not YAML"):
        kapilite_cluster.apply(bad)
    with pytest.raises(ManifestError, match="names no apiVersion and kind"):
        kapilite_cluster.apply({"metadata": {}})
    with pytest.raises(RequestError, match="v1 has no kind Widget"):
        kapilite_cluster.apply({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w"}})
