"""Every verb on every kind: what a write returns, what is stored, what dry run leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

POD: dict[str, Any] = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
LABELS = {"app": "x"}
WORKLOAD: dict[str, Any] = {
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": POD},
}
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}

SAMPLES: dict[str, dict[str, Any]] = {
    "configmaps": {"data": {"a": "1"}},
    "secrets": {"stringData": {"a": "1"}},
    "serviceaccounts": {},
    "services": {"spec": {"ports": [{"port": 80, "protocol": "TCP"}], "selector": LABELS}},
    "pods": {"spec": POD},
    "deployments": {"spec": WORKLOAD},
    "daemonsets": {"spec": WORKLOAD},
    "leases": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "roles": {"rules": RULES},
    "rolebindings": {
        "roleRef": ROLE,
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "events": {"reason": "Because", "type": "Normal", "message": "so"},
    "nodes": {},
    "clusterroles": {"rules": RULES},
    "gizmos": {"spec": {"size": "large"}},
    "gadgets": {"anything": [1, 2]},
}


@pytest.fixture(params=SAMPLES)
async def thing(request: pytest.FixtureRequest, kube: Any) -> tuple[Any, dict[str, Any]]:
    """A kind, and an object of it to make."""
    plural = request.param
    custom = plural in ("gizmos", "gadgets")
    resource = await kube.shared(plural) if custom else kube.of(plural)
    obj = resource.new(kube.name() if not resource.namespace else "x", **SAMPLES[plural])
    if plural == "events":
        obj["involvedObject"] = {"kind": "Pod", "namespace": kube.namespace, "name": "p"}
    return resource, obj


async def make(kube: Any, thing: tuple[Any, dict[str, Any]]) -> tuple[Any, str]:
    """The object as the server made it, and its path."""
    resource, obj = thing
    path = resource.path(obj["metadata"]["name"])
    if not resource.namespace:
        kube.made.append(path)
    made = await kube.post(resource.path(), obj)
    assert made.status == 201, made.body
    return made.json, path


async def test_a_life_from_creation_to_deletion(kube: Any, thing: Any) -> None:
    made, path = await make(kube, thing)

    assert (await kube.get(path)).ok == made
    assert made["metadata"]["name"] in names((await kube.get(path.rpartition("/")[0])).ok)
    made["metadata"]["labels"] = {"a": "b"}
    replaced = (await kube.put(path, made)).ok
    assert replaced["metadata"]["labels"] == {"a": "b"}
    assert int(replaced["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    merged = (await kube.patch(path, {"metadata": {"labels": {"c": "d"}}})).ok
    assert merged["metadata"]["labels"] == {"a": "b", "c": "d"}
    removal = [{"op": "remove", "path": "/metadata/labels/a"}]
    assert (await kube.patch(path, removal, "json")).ok["metadata"]["labels"] == {"c": "d"}
    assert (await kube.delete(path, gracePeriodSeconds="0")).status == 200
    assert (await kube.get(path)).status == 404


async def test_a_write_that_changes_nothing_is_none(kube: Any, thing: Any) -> None:
    made, path = await make(kube, thing)

    for body, how in (({}, "merge"), ([], "json"), ({"metadata": {"labels": None}}, "merge")):
        assert (await kube.patch(path, body, how)).ok == made
    assert (await kube.put(path, made)).ok == made


async def test_dry_run_answers_as_if_and_does_nothing(kube: Any, thing: Any) -> None:
    resource, obj = thing
    would = await kube.post(resource.path(), obj, dryRun="All")
    assert would.status == 201
    assert "uid" in would.json["metadata"]
    assert "resourceVersion" not in would.json["metadata"]
    made, path = await make(kube, thing)

    label = {"metadata": {"labels": {"dry": "run"}}}
    merged = (await kube.patch(path, label, dryRun="All")).ok
    assert merged["metadata"]["labels"]["dry"] == "run"
    replaced = {**made, "metadata": {**made["metadata"], **label["metadata"]}}
    assert (await kube.put(path, replaced, dryRun="All")).ok["metadata"]["labels"]["dry"] == "run"
    assert (await kube.delete(path, dryRun="All", gracePeriodSeconds="0")).status == 200
    assert (await kube.get(path)).ok == made


async def test_the_order_of_the_fields_does_not_matter(kube: Any, thing: Any) -> None:
    resource, obj = thing
    turned = {"kind": obj["kind"], **obj}

    for params in ({"dryRun": "All"}, {}):
        made = (await kube.post(resource.path(), turned, **params)).ok
        assert (made["apiVersion"], made["kind"]) == (resource.api_version, resource.kind)

    path = resource.path(obj["metadata"]["name"])
    kube.made.append(path)
    assert (await kube.get(path)).ok == made


async def test_server_side_apply_makes_and_changes(kube: Any, thing: Any) -> None:
    resource, obj = thing
    if resource.plural == "nodes":
        kube.needs(21, "stable apply of nodes, which admission taints")
        obj = {**obj, "spec": {"providerID": "test://x"}}  # who owns nothing is not remembered
    if not resource.namespace:
        kube.made.append(resource.path(obj["metadata"]["name"]))
    made = await kube.apply(resource, obj, "one")
    assert made.status == 201, made.body

    again = await kube.apply(resource, obj, "one")
    assert (again.status, without_times(again.json)) == (200, without_times(made.json))
    labelled = {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}
    assert (await kube.apply(resource, labelled, "one")).ok["metadata"]["labels"] == {"a": "b"}
    assert (await kube.apply(resource, obj, "one")).ok["metadata"].get("labels") is None


async def test_an_update_must_be_of_the_object_that_is_there(kube: Any, thing: Any) -> None:
    made, path = await make(kube, thing)
    meta = made["metadata"]

    stale = {**made, "metadata": {**meta, "resourceVersion": "1"}}
    code, reason, message = (await kube.put(path, stale)).refusal
    assert (code, reason) == (409, "Conflict")
    assert message.endswith(
        f'"{meta["name"]}": the object has been modified; please apply your changes to the '
        "latest version and try again"
    )
    if path.endswith("/services/x"):
        kube.needs(21, "check of a service's uid before that of its cluster address")
    other = {**made, "metadata": {**meta, "uid": "5f6d3b52-6c08-4a6c-a1bd-d2d1d5d3a4a0"}}
    code, reason, message = (await kube.put(path, other)).refusal
    assert (code, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in message


async def test_deletion_keeps_to_its_preconditions(kube: Any, thing: Any) -> None:
    made, path = await make(kube, thing)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}

    for wrong, texts in (
        ({"uid": "no"}, ["the UID in the precondition (no) does not match the UID in record ("]),
        ({"resourceVersion": "1"}, ["the ResourceVersion in the precondition (1) does not match"]),
    ):
        refused = await kube.delete(path, {**options, "preconditions": wrong})
        assert refused.refusal[:2] == (409, "Conflict")
        assert all(text in refused.refusal[2] for text in texts), refused.body
    right = {k: made["metadata"][k] for k in ("uid", "resourceVersion")}
    assert (await kube.delete(path, {**options, "preconditions": right})).status == 200


async def test_what_is_not_there_cannot_be_changed(kube: Any, thing: Any) -> None:
    resource, obj = thing
    name = obj["metadata"]["name"]
    path = resource.path(name)
    group = f".{resource.group}" if resource.group else ""
    expected = (404, "NotFound", f'{resource.plural}{group} "{name}" not found')

    for answer in (await kube.get(path), await kube.delete(path), await kube.patch(path, {})):
        assert answer.refusal == expected
        details = answer.json["details"]
        assert (details["name"], details["kind"]) == (name, resource.plural)
        assert details.get("group", "") == resource.group


async def test_a_name_is_taken_once(kube: Any, thing: Any) -> None:
    await make(kube, thing)
    resource, obj = thing
    group = f".{resource.group}" if resource.group else ""

    refusal = (await kube.post(resource.path(), obj)).refusal

    text = f'{resource.plural}{group} "{obj["metadata"]["name"]}" already exists'
    assert refusal == (409, "AlreadyExists", text)


async def test_a_name_can_begin_with_what_one_requests(kube: Any, thing: Any) -> None:
    resource, obj = thing
    wish = {"generateName": f"{kube.name()}-"}

    made = (await kube.post(resource.path(), {**obj, "metadata": wish})).ok

    name = made["metadata"]["name"]
    kube.made.append(resource.path(name))
    assert name.startswith(wish["generateName"])
    assert len(name) == len(wish["generateName"]) + 5
    assert made["metadata"]["generateName"] == wish["generateName"]


async def test_without_a_name_nothing_is_made(kube: Any, thing: Any) -> None:
    resource, obj = thing

    code, reason, message = (await kube.post(resource.path(), {**obj, "metadata": {}})).refusal

    assert (code, reason) == (422, "Invalid")
    assert "Required value: name or generateName is required" in message


def names(found: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


async def test_a_name_is_taken_while_its_object_is_being_deleted(kube: Any) -> None:
    configmaps = kube.of("configmaps")
    kept = configmaps.new("x", metadata={"finalizers": ["example.com/kept"]})
    (await kube.post(configmaps.path(), kept)).ok
    (await kube.delete(configmaps.path("x"))).ok

    taken = await kube.post(configmaps.path(), configmaps.new("x"))

    text = 'object is being deleted: configmaps "x" already exists'
    assert taken.refusal == (409, "AlreadyExists", text)
    assert taken.json["details"] == {"name": "x", "kind": "configmaps"}
    (await kube.patch(configmaps.path("x"), {"metadata": {"finalizers": None}})).ok


@pytest.mark.parametrize("path", ["", "/x"])
async def test_there_is_no_head(kube: Any, path: str) -> None:
    refused = await kube.call("HEAD", f"{kube.of('configmaps').path()}{path}")

    assert (refused.status, refused.body) == (405, b"")


@pytest.mark.whole_kubernetes
async def test_a_network_policy_counts_its_changes(kube: Any) -> None:
    policies = kube.of("networkpolicies")
    made = (await kube.post(policies.path(), policies.new("x", spec={"podSelector": {}}))).ok
    change = {"spec": {"policyTypes": ["Egress"]}}
    changed = (await kube.patch(policies.path("x"), change)).ok
    assert [obj["metadata"]["generation"] for obj in (made, changed)] == [1, 2]


def without_times(obj: Any) -> Any:
    """The same without when fields were applied: kube-apiserver answers with another second."""
    fields = [{**one, "time": ""} for one in obj["metadata"].get("managedFields", ())]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": fields}}
