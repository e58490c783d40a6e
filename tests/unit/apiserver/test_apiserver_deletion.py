"""Deletion: finalizers, owners, namespaces, definitions, collections."""

from __future__ import annotations

from typing import Any

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
    api: Any, widgets: str, make_widget: Any
) -> None:
    first = (await api("POST", widgets, make_widget("first"))).body
    second = (await api("POST", widgets, make_widget("second"))).body
    await api("POST", CONFIGMAPS, owned_by("one", first))
    child = (await api("POST", CONFIGMAPS, owned_by("both", first, second))).body
    await api("POST", CONFIGMAPS, owned_by("grandchild", child))
    await api("POST", CONFIGMAPS, {"metadata": {"name": "free"}})

    await api("DELETE", f"{widgets}/first")
    assert not await exists(api, f"{CONFIGMAPS}/one")
    both = (await api("GET", f"{CONFIGMAPS}/both")).body
    assert [o["name"] for o in both["metadata"]["ownerReferences"]] == ["second"]
    assert await exists(api, f"{CONFIGMAPS}/grandchild")

    await api("DELETE", f"{widgets}/second")
    assert not await exists(api, f"{CONFIGMAPS}/both")
    assert not await exists(api, f"{CONFIGMAPS}/grandchild")
    assert await exists(api, f"{CONFIGMAPS}/free")


async def test_an_owner_that_was_taken_back_takes_nothing_along(
    api: Any, widgets: str, make_widget: Any
) -> None:
    owner = (await api("POST", widgets, make_widget("owner"))).body
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"ownerReferences": None}})
    await api("DELETE", f"{widgets}/owner")
    assert await exists(api, f"{CONFIGMAPS}/a")


async def test_orphans_stay_when_asked_for(api: Any, widgets: str, make_widget: Any) -> None:
    owner = (await api("POST", widgets, make_widget("owner"))).body
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    await api("DELETE", f"{widgets}/owner", propagationPolicy="Orphan")
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
    assert not await exists(api, f"{CONFIGMAPS}/late")


async def test_an_owner_of_a_kind_that_is_not_served_is_taken_to_exist(api: Any) -> None:
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm", "uid": "u1"},
    }
    await api("POST", CONFIGMAPS, owned_by("a", owner))
    assert await exists(api, f"{CONFIGMAPS}/a")


async def test_a_namespace_goes_with_its_content(api: Any, widgets: str, make_widget: Any) -> None:
    await api("POST", NAMESPACES, {"metadata": {"name": "team"}})
    inside = widgets.replace("default", "team")
    held = make_widget("held")
    held["metadata"]["finalizers"] = ["lab.example.com/x"]
    await api("POST", inside, held)
    await api("POST", inside, make_widget("loose"))
    await api("POST", widgets, make_widget("elsewhere"))

    marked = (await api("DELETE", f"{NAMESPACES}/team")).body
    assert marked["status"]["phase"] == "Terminating"
    assert not await exists(api, f"{inside}/loose")
    refused = await api("POST", inside, make_widget("new"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    await api.patch(f"{inside}/held", {"metadata": {"finalizers": None}})
    assert not await exists(api, f"{NAMESPACES}/team")
    assert await exists(api, f"{widgets}/elsewhere")


async def test_an_empty_namespace_goes_at_once_but_default_stays(api: Any) -> None:
    await api("POST", NAMESPACES, {"metadata": {"name": "team"}})
    assert (await api("DELETE", f"{NAMESPACES}/team")).body["status"] == "Success"
    refused = await api("DELETE", f"{NAMESPACES}/default")
    assert refused.status == 403
    assert await exists(api, f"{NAMESPACES}/default")


async def test_a_definition_goes_with_its_objects(
    api: Any, widgets: str, make_widget: Any, widget_crd: Any
) -> None:
    await api("POST", widgets, make_widget("a"))
    async with api.watch(widgets) as events:
        await anext(events)
        await api("DELETE", CRD)
        assert (await anext(events))["type"] == "DELETED"
        assert [event async for event in events] == [], "the watch ends"
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
