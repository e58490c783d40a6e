"""Deletion: finalizers, owners, namespaces, definitions, collections."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from laneway.apiserver.admission.attributes import Attributes
from laneway.apiserver.admission.dispatch import Admission
from laneway.apiserver.deletion import worker
from laneway.apiserver.deletion.collector import CHUNK
from laneway.apiserver.errors import ApiError
from laneway.apiserver.server import ApiServer
from laneway.apiserver.storage import upkeep
from laneway.apiserver.storage.events import Key

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.lab.example.com"


def owned_by(name: str, *owners: Any) -> dict[str, Any]:
    refs = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": refs}}


async def exists(api: Any, path: str) -> bool:
    return bool((await api("GET", path)).status == 200)


async def gone(api: Any, path: str) -> None:
    """Wait until what follows from a deletion has removed this."""
    async with asyncio.timeout(10):
        while await exists(api, path):  # noqa: ASYNC110 - a request is the event
            await asyncio.sleep(0)


async def quiet(server: ApiServer) -> None:
    """Wait until nothing is left that follows from a change."""
    assert server._store is not None
    async with asyncio.timeout(30):
        while server._store.work():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def test_a_deleted_object_is_named_in_the_answer(
    api: Any, widgets: str, make_widget: Any
) -> None:
    made = (await api("POST", widgets, make_widget("a"))).body
    gone = await api("DELETE", f"{widgets}/a")
    assert gone.status == 200
    assert gone.body["status"] == "Success"
    assert gone.body["details"]["uid"] == made["metadata"]["uid"]
    assert (await api("DELETE", f"{widgets}/a")).status == 404


async def test_finalizers_hold_an_object(api: Any, widgets: str, make_widget: Any) -> None:
    sent = make_widget("a")
    sent["metadata"]["finalizers"] = ["lab.example.com/x", "lab.example.com/y"]
    await api("POST", widgets, sent)

    marked = (await api("DELETE", f"{widgets}/a")).body
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["generation"] == 2
    again = (await api("DELETE", f"{widgets}/a")).body
    assert again == marked, "deleting twice changes nothing"

    more = {"metadata": {"finalizers": ["lab.example.com/x", "lab.example.com/z"]}}
    assert (await api.patch(f"{widgets}/a", more)).status == 422
    less = {"metadata": {"finalizers": ["lab.example.com/y"]}}
    assert (await api.patch(f"{widgets}/a", less)).status == 200
    assert await exists(api, f"{widgets}/a")
    last = await api.patch(f"{widgets}/a", {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert not await exists(api, f"{widgets}/a")


async def test_preconditions_protect_another_object_of_the_same_name(
    api: Any, widgets: str, make_widget: Any
) -> None:
    made = (await api("POST", widgets, make_widget("a"))).body["metadata"]
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        refused = await api("DELETE", f"{widgets}/a", {"preconditions": wrong})
        assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert (await api("DELETE", f"{widgets}/a", {"preconditions": right})).status == 200


async def test_dependents_go_with_their_last_owner(
    api: Any, server: ApiServer, widgets: str, make_widget: Any
) -> None:
    first = (await api("POST", widgets, make_widget("first"))).body
    second = (await api("POST", widgets, make_widget("second"))).body
    await api("POST", CONFIGMAPS, owned_by("one", first))
    child = (await api("POST", CONFIGMAPS, owned_by("both", first, second))).body
    await api("POST", CONFIGMAPS, owned_by("grandchild", child))
    await api("POST", CONFIGMAPS, {"metadata": {"name": "free"}})

    await api("DELETE", f"{widgets}/first")
    await gone(api, f"{CONFIGMAPS}/one")
    await quiet(server)
    both = (await api("GET", f"{CONFIGMAPS}/both")).body
    assert [o["name"] for o in both["metadata"]["ownerReferences"]] == ["second"]
    assert await exists(api, f"{CONFIGMAPS}/grandchild")

    await api("DELETE", f"{widgets}/second")
    await gone(api, f"{CONFIGMAPS}/both")
    await gone(api, f"{CONFIGMAPS}/grandchild")
    assert await exists(api, f"{CONFIGMAPS}/free")


async def test_an_owner_that_was_taken_back_takes_nothing_along(
    api: Any, server: ApiServer, widgets: str, make_widget: Any
) -> None:
    owner = (await api("POST", widgets, make_widget("owner"))).body
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"ownerReferences": None}})
    await api("DELETE", f"{widgets}/owner")
    await quiet(server)
    assert await exists(api, f"{CONFIGMAPS}/a")


async def test_orphans_stay_when_asked_for(api: Any, widgets: str, make_widget: Any) -> None:
    owner = (await api("POST", widgets, make_widget("owner"))).body
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    held = await api("DELETE", f"{widgets}/owner", propagationPolicy="Orphan")
    assert held.body["metadata"]["finalizers"] == ["orphan"]
    await gone(api, f"{widgets}/owner")
    left = await api("GET", f"{CONFIGMAPS}/a")
    assert left.status == 200
    assert "ownerReferences" not in left.body["metadata"]


async def test_an_object_whose_owner_is_gone_already_goes_too(
    api: Any, widgets: str, make_widget: Any
) -> None:
    owner = (await api("POST", widgets, make_widget("owner"))).body
    await api("DELETE", f"{widgets}/owner")
    await api("POST", widgets, make_widget("owner"))  # the same name, but not the same object
    assert (await api("POST", CONFIGMAPS, owned_by("late", owner))).status == 201
    await gone(api, f"{CONFIGMAPS}/late")


async def test_an_owner_of_a_kind_that_is_not_served_is_taken_to_exist(
    api: Any, server: ApiServer
) -> None:
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm", "uid": "u1"},
    }
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    await quiet(server)
    assert await exists(api, f"{CONFIGMAPS}/a")


async def test_a_namespace_goes_with_its_content(
    api: Any, server: ApiServer, widgets: str, make_widget: Any
) -> None:
    await api("POST", NAMESPACES, {"metadata": {"name": "team"}})
    inside = widgets.replace("default", "team")
    held = make_widget("held")
    held["metadata"]["finalizers"] = ["lab.example.com/x"]
    await api("POST", inside, held)
    await api("POST", inside, make_widget("loose"))
    await api("POST", widgets, make_widget("elsewhere"))

    marked = (await api("DELETE", f"{NAMESPACES}/team")).body
    assert marked["status"]["phase"] == "Terminating"
    assert marked["metadata"].get("deletionGracePeriodSeconds") is None
    await gone(api, f"{inside}/loose")
    refused = await api("POST", inside, make_widget("new"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    await quiet(server)
    waiting = (await api("GET", f"{NAMESPACES}/team")).body["status"]
    assert {c["type"]: (c["status"], c["reason"], c["message"]) for c in waiting["conditions"]} == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: widgets.lab.example.com has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            (
                "Some content in the namespace has finalizers remaining: lab.example.com/x in 1 "
                "resource instances"
            ),
        ),
    }

    await api.patch(f"{inside}/held", {"metadata": {"finalizers": None}})
    await gone(api, f"{NAMESPACES}/team")
    assert await exists(api, f"{widgets}/elsewhere")


async def test_an_empty_namespace_goes_but_default_stays(api: Any) -> None:
    await api("POST", NAMESPACES, {"metadata": {"name": "team"}})
    marked = (await api("DELETE", f"{NAMESPACES}/team")).body
    assert marked["status"]["phase"] == "Terminating"
    await gone(api, f"{NAMESPACES}/team")
    refused = await api("DELETE", f"{NAMESPACES}/default")
    assert refused.status == 403
    assert await exists(api, f"{NAMESPACES}/default")


async def test_a_definition_goes_with_its_objects(
    api: Any, widgets: str, make_widget: Any, widget_crd: Any
) -> None:
    held = make_widget("a")
    held["metadata"]["finalizers"] = ["lab.example.com/x"]
    await api("POST", widgets, held)
    async with api.watch(widgets) as events:
        await anext(events)
        marked = (await api("DELETE", CRD)).body
        assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert marked["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"
        assert (await anext(events))["object"]["metadata"]["deletionTimestamp"]
        refused = await api("POST", widgets, make_widget("new"))
        assert (refused.status, refused.body["message"]) == (
            405,
            "create not allowed while custom resource definition is terminating",
        )
        await api.patch(f"{widgets}/a", {"metadata": {"finalizers": None}})
        assert (await anext(events))["type"] == "DELETED"
        assert [event async for event in events] == [], "the watch ends"
    await gone(api, CRD)
    assert (await api("GET", widgets)).status == 404

    await api("POST", CRD.rpartition("/")[0], widget_crd)
    assert (await api("GET", widgets)).body["items"] == []


async def test_a_collection_may_hold_owners_and_dependents(api: Any) -> None:
    owner = (await api("POST", CONFIGMAPS, {"metadata": {"name": "a"}})).body
    await api("POST", CONFIGMAPS, owned_by("b", owner))
    assert (await api("DELETE", CONFIGMAPS)).status == 200
    assert (await api("GET", CONFIGMAPS)).body["items"] == []


async def test_a_collection_is_deleted_by_selector(
    api: Any, widgets: str, make_widget: Any
) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await api("POST", widgets, make_widget(name, {"color": color}))
    gone = await api("DELETE", widgets, labelSelector="color=red")
    assert [item["metadata"]["name"] for item in gone.body["items"]] == ["a", "c"]
    left = (await api("GET", widgets)).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


def blocking(body: dict[str, Any]) -> dict[str, Any]:
    for ref in body["metadata"]["ownerReferences"]:
        ref["blockOwnerDeletion"] = True
    return body


async def make(api: Any, name: str, *owners: Any, finalizers: Any = ()) -> Any:
    body = blocking(owned_by(name, *owners))
    body["metadata"]["finalizers"] = list(finalizers)
    reply = await api("POST", CONFIGMAPS, body)
    assert reply.status == 201
    return reply.body


@pytest.mark.parametrize("asked", ["by the request", "by a finalizer of its own"])
async def test_an_owner_in_the_foreground_waits_for_those_that_block_it(
    api: Any, server: ApiServer, asked: str
) -> None:
    mine = asked == "by a finalizer of its own"
    owner = await make(api, "owner", finalizers=["foregroundDeletion"] if mine else ())
    child = await make(api, "child", owner)
    await make(api, "grandchild", child, finalizers=["lab.example.com/x"])
    await api("POST", CONFIGMAPS, owned_by("free", owner))

    policy = {} if mine else {"propagationPolicy": "Foreground"}
    marked = (await api("DELETE", f"{CONFIGMAPS}/owner", **policy)).body
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await quiet(server)

    # The child has a dependent itself, so it waits as well; what does not block is gone.
    waiting = (await api("GET", f"{CONFIGMAPS}/child")).body["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    assert await exists(api, f"{CONFIGMAPS}/owner")
    assert not await exists(api, f"{CONFIGMAPS}/free")

    await api.patch(f"{CONFIGMAPS}/grandchild", {"metadata": {"finalizers": None}})
    await gone(api, f"{CONFIGMAPS}/owner")
    assert not await exists(api, f"{CONFIGMAPS}/child")


async def test_an_owner_no_longer_waits_for_a_dependent_that_lets_it_go(
    api: Any, server: ApiServer
) -> None:
    owner = await make(api, "owner")
    child = await make(api, "child", owner, finalizers=["lab.example.com/x"])
    await api("DELETE", f"{CONFIGMAPS}/owner", propagationPolicy="Foreground")
    await quiet(server)
    assert await exists(api, f"{CONFIGMAPS}/owner")
    refs = child["metadata"]["ownerReferences"]
    refs[0]["blockOwnerDeletion"] = False
    await api.patch(f"{CONFIGMAPS}/child", {"metadata": {"ownerReferences": refs}})
    await gone(api, f"{CONFIGMAPS}/owner")


async def test_a_circle_of_owners_can_be_deleted_in_the_foreground(api: Any) -> None:
    first = await make(api, "first")
    second = await make(api, "second", first)
    refs = blocking(owned_by("first", second))["metadata"]["ownerReferences"]
    await api.patch(f"{CONFIGMAPS}/first", {"metadata": {"ownerReferences": refs}})
    await api("DELETE", f"{CONFIGMAPS}/first", propagationPolicy="Foreground")
    await gone(api, f"{CONFIGMAPS}/first")
    await gone(api, f"{CONFIGMAPS}/second")


async def test_an_owner_in_another_namespace_is_none(api: Any, server: ApiServer) -> None:
    owner = await make(api, "owner")
    elsewhere = CONFIGMAPS.replace("default", "kube-public")
    await api("POST", elsewhere, owned_by("a", owner))
    await api("POST", NODES, owned_by("n1", owner))
    await gone(api, f"{elsewhere}/a")
    await quiet(server)
    assert await exists(api, f"{NODES}/n1"), "what cannot be judged stays"
    events = (await api("GET", "/api/v1/events")).body["items"]
    assert {(e["reason"], e["involvedObject"]["name"]) for e in events} == {
        ("OwnerRefInvalidNamespace", "a"),
        ("OwnerRefInvalidNamespace", "n1"),
    }


async def test_a_kind_that_comes_to_be_served_is_judged_then(
    api: Any, server: ApiServer, widget_crd: Any
) -> None:
    owner = {
        "apiVersion": "lab.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "uid": "u1"},
    }
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    await quiet(server)
    assert await exists(api, f"{CONFIGMAPS}/a")
    await api("POST", CRD.rpartition("/")[0], widget_crd)
    await gone(api, f"{CONFIGMAPS}/a")


async def test_many_dependents_delay_nobody(
    api: Any, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cascade is done in slices, and between them everybody else has a turn."""
    monkeypatch.setattr(worker, "SLICE_SECONDS", 0)
    store = server._store
    assert store is not None
    owner = await make(api, "owner")
    for number in range(300):
        await make(api, f"d{number}", owner)
    await api("DELETE", f"{CONFIGMAPS}/owner")
    seen = [store.count("configmaps")]
    async with asyncio.timeout(30):
        while seen[-1]:
            await asyncio.sleep(0)
            seen.append(store.count("configmaps"))
    steps = [before - after for before, after in itertools.pairwise(seen)]
    assert max(steps) <= CHUNK
    assert sum(steps) > CHUNK, "most of it was still to be done"


async def test_what_was_begun_goes_on_after_a_restart(
    api: Any, server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash right after the commit: the worker never got a turn."""
    monkeypatch.setattr(worker.Worker, "wake", lambda *_: None)
    owner = await make(api, "owner")
    await make(api, "child", owner)
    orphaned = await make(api, "orphaned")
    await make(api, "left", orphaned)
    waiting = await make(api, "waiting")
    await make(api, "blocks", waiting)
    await api("POST", NAMESPACES, {"metadata": {"name": "team"}})
    await api("POST", CONFIGMAPS.replace("default", "team"), {"metadata": {"name": "x"}})
    await api("DELETE", f"{CONFIGMAPS}/owner")
    await api("DELETE", f"{CONFIGMAPS}/orphaned", propagationPolicy="Orphan")
    await api("DELETE", f"{CONFIGMAPS}/waiting", propagationPolicy="Foreground")
    await api("DELETE", f"{NAMESPACES}/team")
    assert await exists(api, f"{CONFIGMAPS}/child")
    await server.stop()
    monkeypatch.undo()

    again = ApiServer(str(tmp_path / "state.db"), port=server.port)
    await again.start()
    try:
        await quiet(again)
        for name in ("child", "orphaned", "waiting", "blocks"):
            assert not await exists(api, f"{CONFIGMAPS}/{name}")
        assert not await exists(api, f"{NAMESPACES}/team")
        left = (await api("GET", f"{CONFIGMAPS}/left")).body["metadata"]
        assert "ownerReferences" not in left
    finally:
        await again.stop()


async def test_what_a_review_keeps_is_tried_again(
    api: Any, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.05)
    refusals = 3

    async def review(kind: Any, obj: Any, options: Any) -> None:
        nonlocal refusals
        if obj["metadata"]["name"] == "child" and refusals:
            refusals -= 1
            raise ApiError(403, "Forbidden", "not yet")

    assert server._store is not None
    collector = server._store._wake.__self__  # type: ignore[attr-defined]
    monkeypatch.setattr(collector, "review", review)
    monkeypatch.setattr(collector, "is_reviewed", lambda _: True)
    owner = await make(api, "owner")
    await make(api, "child", owner)
    await make(api, "sibling", owner)
    await api("DELETE", f"{CONFIGMAPS}/owner")
    await gone(api, f"{CONFIGMAPS}/child")
    await gone(api, f"{CONFIGMAPS}/sibling")
    assert refusals == 0


async def test_an_object_that_cannot_be_judged_holds_up_no_other(
    api: Any, server: ApiServer
) -> None:
    """As an older server may have left it: with a reference that says too little."""
    store = server._store
    assert store is not None
    owner = await make(api, "owner")
    refs = [{"uid": owner["metadata"]["uid"]}]
    for name in ("a", "m"):
        meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": refs}
        odd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        store.commit("ADDED", Key("configmaps", "default", name), odd, None)
    others = [f"d{number}" for number in range(60)]
    for name in others:
        await make(api, name, owner)
    await api("DELETE", f"{CONFIGMAPS}/owner")
    for name in others:
        await gone(api, f"{CONFIGMAPS}/{name}")
    assert await exists(api, f"{CONFIGMAPS}/a")


@pytest.mark.parametrize("method", ["work", "tidy"])
async def test_a_disk_that_is_full_for_a_while_ends_no_task(
    api: Any, server: ApiServer, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    store = server._store
    assert store is not None
    outcomes = ["fails", "fails", "works"]
    served = asyncio.Event()
    real = getattr(store, method)

    def on_a_full_disk(*args: Any, **kwargs: Any) -> Any:
        if outcomes and outcomes.pop(0) == "fails":
            raise sqlite3.OperationalError("database or disk is full")
        served.set()
        return real(*args, **kwargs)

    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(upkeep, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(store, method, on_a_full_disk)
    task = upkeep.Upkeep(store)
    task.start()
    owner = await make(api, "owner")
    await make(api, "child", owner)
    await api("DELETE", f"{CONFIGMAPS}/owner")
    await gone(api, f"{CONFIGMAPS}/child")
    async with asyncio.timeout(10):
        await served.wait()
    await task.stop()


async def test_an_object_that_changes_all_the_time_is_reviewed_a_few_times(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes a status more often than a webhook answers must not hold up a request."""
    deadlines = []

    async def validate(_: Admission, write: Attributes) -> tuple[str, ...]:
        deadlines.append(write.deadline)
        if len(deadlines) < 50:
            await api.patch(f"{CONFIGMAPS}/busy", {"data": {"n": str(len(deadlines))}})
        return ()

    await make(api, "busy")
    monkeypatch.setattr(
        Admission, "concerns", lambda _, kind, operation, *__: operation == "DELETE"
    )
    monkeypatch.setattr(Admission, "validate", validate)
    answer = await api("DELETE", f"{CONFIGMAPS}/busy")
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert len(deadlines) == 5
    assert len(set(deadlines)) == 1, "the time is that of the whole request"


POD = {
    "metadata": {"name": "p"},
    "spec": {
        "nodeName": "n1",
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "i"}],
    },
}


async def test_a_bound_pod_waits_for_its_kubelet(api: Any) -> None:
    pods = CONFIGMAPS.replace("configmaps", "pods")
    assert (await api("POST", pods, POD)).status == 201

    async def grace(**params: Any) -> Any:
        reply = await api("DELETE", f"{pods}/p", **params)
        assert reply.body["kind"] == "Pod"
        return reply.body["metadata"]["deletionGracePeriodSeconds"]

    assert await grace() == 30
    assert await grace(gracePeriodSeconds=60) == 30, "it only becomes shorter"
    assert await grace(gracePeriodSeconds=5) == 5
    assert await exists(api, f"{pods}/p")
    assert await grace(gracePeriodSeconds=0) == 0
    assert not await exists(api, f"{pods}/p")


async def test_an_unbound_pod_goes_at_once(api: Any) -> None:
    pods = CONFIGMAPS.replace("configmaps", "pods")
    unbound = json.loads(json.dumps(POD))
    del unbound["spec"]["nodeName"]
    await api("POST", pods, unbound)
    assert (await api("DELETE", f"{pods}/p")).body["kind"] == "Pod"
    assert not await exists(api, f"{pods}/p")


async def test_policies_are_kept_on_the_object(api: Any, widgets: str, make_widget: Any) -> None:
    sent = make_widget("a")
    sent["metadata"]["finalizers"] = ["lab.example.com/x"]
    await api("POST", widgets, sent)

    async def finalizers(**params: Any) -> tuple[int, Any]:
        reply = await api("DELETE", f"{widgets}/a", **params)
        return reply.status, reply.body["metadata"]["finalizers"]

    held = "lab.example.com/x"
    assert await finalizers() == (200, [held])
    assert await finalizers(orphanDependents="false") == (202, [held])
    assert await finalizers(propagationPolicy="Background") == (200, [held])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            (
                'propagationPolicy: Invalid value: "Orphan": orphanDependents and '
                "deletionPropagation cannot be both set"
            ),
        ),
        (
            {"propagationPolicy": "Foo"},
            (
                'propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", '
                '"Background", "Orphan", "nil"'
            ),
        ),
        (
            {"dryRun": ["x"]},
            'dryRun: Unsupported value: []string{"x"}: supported values: "All"',
        ),
    ],
)
async def test_options_that_mean_nothing_are_refused(
    api: Any, options: dict[str, Any], problem: str
) -> None:
    await make(api, "a")
    refused = await api("DELETE", f"{CONFIGMAPS}/a", options)
    assert refused.status == 422
    assert refused.body["message"] == f'DeleteOptions.meta.k8s.io "" is invalid: {problem}'
    assert await exists(api, f"{CONFIGMAPS}/a")
