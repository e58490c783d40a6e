"""The patch types: what each does, on which kinds, and how a bad one is refused."""

from __future__ import annotations

from typing import Any

import pytest

POD = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
LABELS = {"app": "x"}
REJECTED = "the server rejected our request due to an error in our request"


@pytest.fixture
async def config(kube: Any) -> tuple[str, dict[str, Any]]:
    """A ConfigMap's path, and itself."""
    configmaps = kube.of("configmaps")
    made = await kube.post(configmaps.path(), configmaps.new("x", data={"a": "1", "b": "2"}))
    return configmaps.path("x"), made.ok


@pytest.fixture
async def deployment(kube: Any) -> str:
    """The path of a Deployment with two containers."""
    deployments = kube.of("deployments")
    containers = [
        {"name": "main", "image": "main:1", "env": [{"name": "A", "value": "1"}]},
        {"name": "side", "image": "side:1", "ports": [{"containerPort": 80, "name": "http"}]},
    ]
    spec = {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": containers}},
    }
    (await kube.post(deployments.path(), deployments.new("x", spec=spec))).ok
    return str(deployments.path("x"))


def containers(obj: dict[str, Any]) -> list[dict[str, Any]]:
    return obj["spec"]["template"]["spec"]["containers"]


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


KUBERNETES = pytest.mark.whole_kubernetes
"""Debian builds the libraries with another release of json-patch than Kubernetes."""


@pytest.mark.whole_kubernetes
async def test_json_patch_has_all_operations(kube: Any, config: Any) -> None:
    path, _ = config
    change = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/c", "value": "3"},
        {"op": "replace", "path": "/data/b", "value": "two"},
        {"op": "copy", "from": "/data/c", "path": "/data/d"},
        {"op": "move", "from": "/data/c", "path": "/data/e~1f"},
        {"op": "remove", "path": "/data/a"},
    ]

    refused = await kube.patch(path, change, "json")
    assert refused.refusal[:2] == (422, "Invalid")  # a key may have no slash
    change[4]["path"] = "/data/e"

    assert (await kube.patch(path, change, "json")).ok["data"] == {"b": "two", "d": "3", "e": "3"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ([{"op": "test", "path": "/data/a", "value": "9"}], (422, "Invalid", REJECTED)),
        ([{"op": "remove", "path": "/data/none"}], (422, "Invalid", REJECTED)),
        ([{"op": "replace", "path": "/none/x", "value": 1}], (422, "Invalid", REJECTED)),
        pytest.param(
            [{"op": "explode", "path": "/data/a"}], (422, "Invalid", REJECTED), marks=KUBERNETES
        ),
        ({"op": "test"}, (400, "BadRequest", "")),
        ([{"op": "add", "path": "/data/a", "value": {}}], (422, "Invalid", "patch: Invalid value")),
        (b"[{", (400, "BadRequest", "")),
    ],
)
async def test_a_json_patch_that_fails_changes_nothing(
    kube: Any, config: Any, change: Any, expected: tuple[int, str, str]
) -> None:
    path, before = config

    code, reason, message = (await kube.patch(path, change, "json")).refusal

    assert (code, reason) == expected[:2]
    assert expected[2] in message
    assert (await kube.get(path)).ok == before


async def test_what_a_json_patch_makes_of_an_object_is_bounded(kube: Any, config: Any) -> None:
    path, before = config
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/{n}"} for n in range(60)]
    assert (await kube.patch(path, doubling, "json")).refusal[0] == 422

    many = [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001
    assert (await kube.patch(path, many, "json")).refusal[:2] == (413, "RequestEntityTooLarge")

    assert (await kube.get(path)).ok == before


async def test_a_merge_patch_removes_by_null_and_replaces_lists(kube: Any, deployment: str) -> None:
    only = {"name": "new", "image": "new:1"}

    merged = (await kube.patch(deployment, pod(containers=[only]), "merge")).ok

    assert [c["name"] for c in containers(merged)] == ["new"]
    cleared = {"metadata": {"annotations": {"a": "1", "b": None}}}
    assert (await kube.patch(deployment, cleared)).ok["metadata"]["annotations"] == {"a": "1"}


async def test_a_strategic_merge_goes_into_lists_by_key(kube: Any, deployment: str) -> None:
    change = pod(
        containers=[
            {"name": "main", "image": "main:2", "env": [{"name": "B", "value": "2"}]},
            {"name": "third", "image": "third:1"},
        ]
    )

    merged = containers((await kube.patch(deployment, change, "strategic")).ok)

    by_name = {c["name"]: c for c in merged}
    assert set(by_name) == {"main", "side", "third"}
    assert by_name["main"]["image"] == "main:2"
    assert sorted(e["name"] for e in by_name["main"]["env"]) == ["A", "B"]


async def test_a_strategic_merge_deletes_an_entry(kube: Any, deployment: str) -> None:
    change = pod(containers=[{"$patch": "delete", "name": "side"}])

    merged = (await kube.patch(deployment, change, "strategic")).ok

    assert [c["name"] for c in containers(merged)] == ["main"]


async def test_a_strategic_merge_replaces_on_demand(kube: Any, deployment: str) -> None:
    only = {"name": "new", "image": "new:1"}

    merged = (
        await kube.patch(deployment, pod(containers=[{"$patch": "replace"}, only]), "strategic")
    ).ok

    assert [c["name"] for c in containers(merged)] == ["new"]
    strategy = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert (await kube.patch(deployment, strategy, "strategic")).ok["spec"]["strategy"] == {
        "type": "Recreate"
    }


async def test_a_strategic_merge_orders_a_list_as_the_patch_says(
    kube: Any, deployment: str
) -> None:
    change = pod(**{"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]})

    merged = (await kube.patch(deployment, change, "strategic")).ok

    assert [c["name"] for c in containers(merged)] == ["side", "main"]


async def test_a_strategic_merge_treats_finalizers_as_a_set(kube: Any, config: Any) -> None:
    path, _ = config

    async def finalizers(**metadata: Any) -> list[str]:
        return (
            (await kube.patch(path, {"metadata": metadata}, "strategic"))
            .ok["metadata"]
            .get("finalizers", [])
        )

    assert await finalizers(finalizers=["example.com/a"]) == ["example.com/a"]
    assert await finalizers(finalizers=["example.com/b"]) == ["example.com/b", "example.com/a"]
    gone = {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}
    assert await finalizers(**gone) == ["example.com/b"]
    assert await finalizers(finalizers=None) == []


async def test_custom_kinds_have_no_strategic_merge(kube: Any, gizmos: Any) -> None:
    (await kube.post(gizmos.path(), gizmos.new("x", spec={}))).ok

    code, reason, message = (await kube.patch(gizmos.path("x"), {}, "strategic")).refusal

    assert (code, reason) == (415, "UnsupportedMediaType")
    assert message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", ""])
async def test_a_patch_says_what_type_it_is(kube: Any, config: Any, content_type: str) -> None:
    headers = {"Content-Type": content_type}

    refused = (await kube.call("PATCH", config[0], {}, headers=headers)).refusal

    assert refused[:2] == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"metadata": {"name": "other"}}, (400, "BadRequest")),
        ({"metadata": {"namespace": "other"}}, (400, "BadRequest")),
        ({"metadata": {"resourceVersion": "1"}}, (409, "Conflict")),
        ({"metadata": {"uid": "5f6d3b52-6c08-4a6c-a1bd-d2d1d5d3a4a0"}}, (422, "Invalid")),
        ({"metadata": {"labels": {"a b": "c"}}}, (422, "Invalid")),
        ({"metadata": {"labels": "no"}}, (422, "Invalid")),
        ({"data": {"a": 1}}, (422, "Invalid")),
        ({"data": []}, (422, "Invalid")),
    ],
)
@pytest.mark.parametrize("how", ["merge", "strategic"])
async def test_a_patch_cannot_make_another_object_of_it(
    kube: Any, config: Any, how: str, change: Any, expected: tuple[int, str]
) -> None:
    path, before = config

    assert (await kube.patch(path, change, how)).refusal[:2] == expected

    assert (await kube.get(path)).ok == before


async def test_what_only_the_server_sets_stays(kube: Any, config: Any) -> None:
    path, before = config
    mine = {"generation": 7, "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x"}

    after = (await kube.patch(path, {"metadata": mine})).ok

    assert after == before


@pytest.mark.parametrize("body", ["text", 1, True, [1]])
async def test_a_merge_patch_is_an_object(kube: Any, config: Any, body: Any) -> None:
    path, before = config

    assert (await kube.patch(path, body)).unwanted

    assert (await kube.get(path)).ok == before


@pytest.mark.parametrize("change", [{"kind": "Secret"}, {"apiVersion": "v2"}])
async def test_a_merge_patch_cannot_change_the_kind(kube: Any, config: Any, change: Any) -> None:
    path, before = config

    assert (await kube.patch(path, change)).refusal[:2] == (422, "Invalid")

    assert (await kube.get(path)).ok == before
