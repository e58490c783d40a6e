"""Deletion: finalizers, owners and what they own, whole collections, namespaces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.whole_kubernetes

FINALIZER = "laneway.example/hold"


@pytest.fixture
def configmaps(kube: Any) -> Any:
    return kube.of("configmaps")


async def make(kube: Any, resource: Any, name: str, *owners: Any, **metadata: Any) -> Any:
    """An object that others may own."""
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    body = resource.new(name, metadata={"ownerReferences": references, **metadata})
    return (await kube.post(resource.path(), body)).ok


async def release(kube: Any, path: str) -> None:
    (await kube.patch(path, {"metadata": {"finalizers": None}})).ok


def options(policy: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}


async def test_a_finalizer_holds_an_object(kube: Any, configmaps: Any) -> None:
    made = await make(kube, configmaps, "x", finalizers=[FINALIZER])
    path = configmaps.path("x")

    held = (await kube.delete(path)).ok

    assert held["kind"] == "ConfigMap"
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["uid"] == made["metadata"]["uid"]
    again = (await kube.delete(path)).ok
    assert again["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
    code, reason, message = (
        await kube.patch(path, {"metadata": {"finalizers": [FINALIZER, "laneway.example/new"]}})
    ).refusal
    assert (code, reason) == (422, "Invalid")
    assert "no new finalizers can be added if the object is being deleted" in message
    await release(kube, path)
    assert (await kube.get(path)).status == 404


async def test_a_deletion_says_what_went(kube: Any, configmaps: Any, gizmos: Any) -> None:
    (await kube.post(gizmos.path(), gizmos.new("x", spec={}))).ok
    for resource in (gizmos,):
        uid = (await kube.get(resource.path("x"))).ok["metadata"]["uid"]
        status = (await kube.delete(resource.path("x"))).ok
        assert (status["kind"], status["status"]) == ("Status", "Success")
        expected = {"name": "x", "group": resource.group, "kind": resource.plural, "uid": uid}
        assert status["details"] == expected


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_what_is_owned_goes_with_its_owner(kube: Any, configmaps: Any, policy: str) -> None:
    owner = await make(kube, configmaps, "owner")
    child = await make(kube, configmaps, "child", owner)
    await make(kube, configmaps, "grandchild", child)

    assert (await kube.delete(configmaps.path("owner"), options(policy))).status == 200

    for name in ("grandchild", "child", "owner"):
        await kube.gone(configmaps.path(name))


async def test_in_the_foreground_the_owner_waits(kube: Any, configmaps: Any) -> None:
    owner = await make(kube, configmaps, "owner")
    await make(kube, configmaps, "child", owner, finalizers=[FINALIZER])

    waiting = (await kube.delete(configmaps.path("owner"), options("Foreground"))).ok

    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    child = configmaps.path("child")
    await kube.until(child, lambda a: "deletionTimestamp" in a.ok["metadata"])
    assert (await kube.get(configmaps.path("owner"))).status == 200
    await release(kube, child)
    await kube.gone(configmaps.path("owner"))


async def test_in_the_background_the_owner_goes_first(kube: Any, configmaps: Any) -> None:
    owner = await make(kube, configmaps, "owner")
    await make(kube, configmaps, "child", owner, finalizers=[FINALIZER])

    await kube.delete(configmaps.path("owner"), options("Background"))

    assert (await kube.get(configmaps.path("owner"))).status == 404
    child = configmaps.path("child")
    await kube.until(child, lambda a: "deletionTimestamp" in a.ok["metadata"])
    await release(kube, child)
    await kube.gone(child)


async def test_orphans_stay_and_forget_their_owner(kube: Any, configmaps: Any) -> None:
    owner = await make(kube, configmaps, "owner")
    await make(kube, configmaps, "child", owner)

    await kube.delete(configmaps.path("owner"), options("Orphan"))

    await kube.gone(configmaps.path("owner"))
    child = (await kube.get(configmaps.path("child"))).ok
    assert "ownerReferences" not in child["metadata"]


async def test_another_owner_keeps_it(kube: Any, configmaps: Any) -> None:
    first, second = [await make(kube, configmaps, name) for name in ("one", "two")]
    await make(kube, configmaps, "child", first, second)

    await kube.delete(configmaps.path("one"), options("Background"))

    def left(answer: Any) -> bool:
        return [o["name"] for o in answer.ok["metadata"]["ownerReferences"]] == ["two"]

    await kube.until(configmaps.path("child"), left)


async def test_an_owner_that_never_was_owns_nothing(kube: Any, configmaps: Any) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "g", "uid": "none"}}

    await make(kube, configmaps, "child", ghost)

    await kube.gone(configmaps.path("child"))


@pytest.mark.parametrize(
    "reference",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"},
        {"apiVersion": "v1", "kind": "ConfigMap", "uid": "u"},
        {"apiVersion": "v1", "name": "o", "uid": "u"},
        {"kind": "ConfigMap", "name": "o", "uid": "u"},
    ],
)
async def test_a_reference_is_complete(kube: Any, configmaps: Any, reference: Any) -> None:
    body = configmaps.new("x", metadata={"ownerReferences": [reference]})

    answer = await kube.post(configmaps.path(), body)

    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes[0][0].startswith("metadata.ownerReferences")


async def test_only_one_owner_controls(kube: Any, configmaps: Any) -> None:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "o", "controller": True}
    references = [{**reference, "uid": "u"}, {**reference, "uid": "v"}]
    body = configmaps.new("x", metadata={"ownerReferences": references})

    answer = await kube.post(configmaps.path(), body)

    assert "Only one reference can have Controller set to true" in answer.refusal[2]


@pytest.mark.parametrize("plural", ["configmaps", "gizmos"])
async def test_a_collection_goes_by_its_selector(kube: Any, plural: str) -> None:
    resource = await kube.shared("gizmos") if plural == "gizmos" else kube.of(plural)
    for number in range(4):
        parity = {"parity": str(number % 2)}
        body = resource.new(f"x{number}", spec={}, metadata={"labels": parity})
        (await kube.post(resource.path(), body)).ok

    would = await kube.delete(resource.path(), dryRun="All")
    assert len(would.ok["items"]) == 4
    gone = await kube.delete(resource.path(), labelSelector="parity=1")

    assert [item["metadata"]["name"] for item in gone.ok["items"]] == ["x1", "x3"]
    left = (await kube.get(resource.path())).ok["items"]
    assert [item["metadata"]["name"] for item in left] == ["x0", "x2"]


async def test_a_pod_is_given_time(kube: Any) -> None:
    pods = kube.of("pods")
    spec = {"nodeName": "none", "containers": [{"name": "c", "image": "i"}]}
    (await kube.post(pods.path(), pods.new("x", spec=spec))).ok

    ending = (await kube.delete(pods.path("x"))).ok

    assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await kube.get(pods.path("x"))).status == 200
    assert (await kube.delete(pods.path("x"), gracePeriodSeconds="0")).status == 200
    assert (await kube.get(pods.path("x"))).status == 404


# ---- namespaces ----


async def test_a_namespace_takes_everything_along(kube: Any, configmaps: Any, gizmos: Any) -> None:
    await make(kube, configmaps, "x")
    (await kube.post(gizmos.path(), gizmos.new("x", spec={}))).ok
    path = kube.of("namespaces").path(kube.namespace)

    ending = (await kube.delete(path)).ok

    assert ending["status"]["phase"] == "Terminating"
    assert ending["spec"]["finalizers"] == ["kubernetes"]
    await kube.gone(path)
    assert (await kube.get(configmaps.path())).ok["items"] == []
    assert (await kube.get(gizmos.path())).ok["items"] == []


async def test_into_an_ending_namespace_nothing_comes(kube: Any, configmaps: Any) -> None:
    await make(kube, configmaps, "held", finalizers=[FINALIZER])
    path = kube.of("namespaces").path(kube.namespace)
    await kube.delete(path)

    code, reason, message = (await kube.post(configmaps.path(), configmaps.new("new"))).refusal

    assert (code, reason) == (403, "Forbidden")
    assert message == (
        f'configmaps "new" is forbidden: unable to create new content in namespace '
        f"{kube.namespace} because it is being terminated"
    )
    await kube.until(configmaps.path("held"), lambda a: "deletionTimestamp" in a.ok["metadata"])
    assert (await kube.get(path)).ok["status"]["phase"] == "Terminating"
    await release(kube, configmaps.path("held"))
    await kube.gone(path)


async def test_why_a_namespace_does_not_go(kube: Any, configmaps: Any) -> None:
    await make(kube, configmaps, "held", finalizers=[FINALIZER])
    path = kube.of("namespaces").path(kube.namespace)
    await kube.delete(path)

    def told(answer: Any) -> bool:
        found = answer.ok["status"].get("conditions", [])
        return any(c["type"] == "NamespaceFinalizersRemaining" for c in found)

    answer = await kube.until(path, told)

    states = {c["type"]: c for c in answer.json["status"]["conditions"]}
    assert states["NamespaceContentRemaining"]["status"] == "True"
    assert FINALIZER in states["NamespaceFinalizersRemaining"]["message"]
    await release(kube, configmaps.path("held"))
    await kube.gone(path)


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_a_system_namespace_stays(kube: Any, name: str) -> None:
    answer = await kube.delete(kube.of("namespaces").path(name))

    assert answer.refusal[:2] == (403, "Forbidden")
    assert "this namespace may not be deleted" in answer.refusal[2]


async def test_a_namespace_is_finalized_through_its_own_path(kube: Any) -> None:
    namespaces = kube.of("namespaces")
    made = await kube.outside(namespaces, namespaces.new(kube.name("fin")))
    body = {**made, "spec": {"finalizers": ["kubernetes", "laneway.example/hold"]}}

    path = namespaces.path(kube.name("fin"), "finalize")
    done = (await kube.put(path, body)).ok

    assert done["spec"]["finalizers"] == ["kubernetes", "laneway.example/hold"]
    changed = (await kube.put(namespaces.path(kube.name("fin")), {**done, "spec": {}})).ok
    assert changed["spec"]["finalizers"] == done["spec"]["finalizers"]
    (await kube.put(path, {**changed, "spec": {"finalizers": []}})).ok


async def test_deletions_at_the_same_time_agree(kube: Any, configmaps: Any) -> None:
    await make(kube, configmaps, "x")

    answers = await asyncio.gather(*(kube.delete(configmaps.path("x")) for _ in range(8)))

    assert sorted(a.status for a in answers) == [200] + [404] * 7
