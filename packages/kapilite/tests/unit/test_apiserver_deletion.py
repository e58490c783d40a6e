"""Deletion: finalizers, owners, namespaces, definitions, collections, pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kapilite.server import ApiServer
from server_support.owners import CONFIGMAPS, exists, gone, make, owned_by, quiet

NAMESPACES = "/api/v1/namespaces"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.lab.example.com"


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


async def test_orphans_stay_when_requested(api: Any, widgets: str, make_widget: Any) -> None:
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
