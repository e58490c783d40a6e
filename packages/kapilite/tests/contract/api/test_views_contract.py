"""Lists and watches of any kind: pages, versions, tables, metadata alone, bookmarks."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

import pytest

from server_support.kube import SECONDS

REAL = bool(os.environ.get("LANEWAY_REALAPI"))
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture(params=["configmaps", "gizmos"])
async def five(request: pytest.FixtureRequest, kube: Any) -> Any:
    """A kind with five objects, x0 to x4."""
    shared = request.param == "gizmos"
    resource = await kube.shared("gizmos") if shared else kube.of(request.param)
    for number in range(5):
        labels = {"parity": "odd" if number % 2 else "even"}
        body = resource.new(f"x{number}", spec={}, metadata={"labels": labels})
        (await kube.post(resource.path(), body)).ok
    return resource


def names(found: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


async def test_a_list_names_its_kind_once(kube: Any, five: Any) -> None:
    found = (await kube.get(five.path())).ok

    assert (found["kind"], found["apiVersion"]) == (f"{five.kind}List", five.api_version)
    assert names(found) == ["x0", "x1", "x2", "x3", "x4"]
    assert int(found["metadata"]["resourceVersion"]) > 0
    assert [item.get("kind") for item in found["items"]] == [
        five.kind if "." in five.group else None
    ] * 5


async def test_pages_follow_each_other(kube: Any, five: Any) -> None:
    first = (await kube.get(five.path(), limit="2")).ok
    assert first["metadata"]["remainingItemCount"] == 3
    await kube.delete(five.path("x3"))

    token = first["metadata"]["continue"]
    second = (await kube.get(five.path(), limit="2", **{"continue": token})).ok
    third = (
        await kube.get(five.path(), limit="2", **{"continue": second["metadata"]["continue"]})
    ).ok

    assert [names(page) for page in (first, second, third)] == [["x0", "x1"], ["x2", "x3"], ["x4"]]
    assert not third["metadata"].get("continue")
    assert "remainingItemCount" not in third["metadata"]


async def test_with_a_selector_the_rest_is_not_counted(kube: Any, five: Any) -> None:
    page = (await kube.get(five.path(), limit="1", labelSelector="parity=even")).ok

    assert names(page) == ["x0"]
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_an_exact_version_shows_that_moment(kube: Any, five: Any) -> None:
    before = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]
    await kube.delete(five.path("x1"))
    after = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]

    async def at(version: str, match: str) -> Any:
        params = {"resourceVersion": version, "resourceVersionMatch": match}
        return (await kube.get(five.path(), **params)).ok

    then = await at(before, "Exact")
    assert names(then) == ["x0", "x1", "x2", "x3", "x4"]
    assert then["metadata"]["resourceVersion"] == before
    assert sorted(names(await at(after, "NotOlderThan"))) == ["x0", "x2", "x3", "x4"]
    assert "x0" in names((await kube.get(five.path(), resourceVersion="0")).ok)


async def test_the_future_is_not_known(kube: Any, five: Any) -> None:
    answer = await kube.get(five.path(), resourceVersion="99999999999")

    assert answer.status == 504
    assert answer.json["reason"] == "Timeout"
    assert answer.json["message"].startswith(
        "Timeout: Too large resource version: 99999999999, current: "
    )
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_of_one_object_the_future_is_not_known_either(kube: Any, five: Any) -> None:
    answer = await kube.get(five.path("x0"), resourceVersion="99999999999")

    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert (await kube.get(five.path("x0"), resourceVersion="0")).status == 200


async def test_all_namespaces_are_one_list(kube: Any, five: Any) -> None:
    path = five.path().replace(f"/namespaces/{kube.namespace}", "")

    found = (await kube.get(path, fieldSelector=f"metadata.namespace={kube.namespace}")).ok

    assert [n for n in names(found) if n.startswith("x")] == ["x0", "x1", "x2", "x3", "x4"]


async def test_metadata_alone(kube: Any, five: Any) -> None:
    found = (await kube.get(five.path(), accept=PARTIAL_LIST)).ok

    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert names(found) == ["x0", "x1", "x2", "x3", "x4"]
    assert all(set(item) <= {"kind", "apiVersion", "metadata"} for item in found["items"])
    one = (await kube.get(five.path("x0"), accept=PARTIAL)).ok
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"]["labels"] == {"parity": "even"}


async def test_a_table_has_rows(kube: Any, five: Any) -> None:
    table = (await kube.get(five.path(), accept=TABLE)).ok

    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert table["columnDefinitions"][0]["format"] == "name"
    assert [row["cells"][0] for row in table["rows"]] == ["x0", "x1", "x2", "x3", "x4"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    bare = (await kube.get(five.path("x1"), accept=TABLE, includeObject="None")).ok
    assert [row["cells"][0] for row in bare["rows"]] == ["x1"]
    assert bare["rows"][0].get("object") is None
    full = (await kube.get(five.path("x1"), accept=TABLE, includeObject="Object")).ok
    assert full["rows"][0]["object"]["kind"] == five.kind


@pytest.mark.parametrize("version", ["v1alpha1", "v2", ""])
async def test_a_table_has_a_version(kube: Any, five: Any, version: str) -> None:
    accept = f"application/json;as=Table;v={version};g=meta.k8s.io"

    assert (await kube.get(five.path(), accept=accept)).refusal[:2] == (406, "NotAcceptable")

    found = (await kube.get(five.path(), accept=f"{accept},application/json")).ok
    assert found["kind"] == f"{five.kind}List"


async def test_a_row_carries_what_there_is_to_carry(kube: Any, five: Any) -> None:
    for path in (five.path(), five.path("x0")):
        refused = (await kube.get(path, accept=TABLE, includeObject="Foo")).refusal
        assert refused[:2] == (400, "BadRequest")
        assert refused[2].startswith("Unable to convert to Table as requested: includeObject: ")
        assert (await kube.get(path, includeObject="Foo")).status == 200


async def test_the_columns_of_a_custom_kind(kube: Any, gizmos: Any) -> None:
    body = gizmos.new("x", spec={"replicas": 2, "note": "hello"})
    (await kube.post(gizmos.path(), body)).ok
    status = {"conditions": [{"type": "Ready", "status": "True"}], "since": "2020-01-01T00:00:00Z"}
    (await kube.patch(gizmos.path("x", "status"), {"status": status})).ok

    table = (await kube.get(gizmos.path(), accept=TABLE)).ok

    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Size", "string", 0),
        ("Replicas", "integer", 0),
        ("Ready", "string", 0),
        ("Since", "date", 0),
        ("Note", "string", 1),
        ("Age", "date", 0),
    ]
    cells = table["rows"][0]["cells"]
    assert cells[:4] == ["x", "small", 2, "True"]
    assert cells[4].endswith("y") or cells[4].endswith("d")
    assert cells[5] == "hello"


# What a newer release added to these tables does not matter to those who read the old columns.
COLUMNS = {
    "namespaces": ["Name", "Status", "Age"],
    "nodes": [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "Internal-IP",
        "External-IP",
        "OS-Image",
        "Kernel-Version",
        "Container-Runtime",
    ],
    "pods": [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ],
    "configmaps": ["Name", "Data", "Age"],
    "secrets": ["Name", "Type", "Data", "Age"],
    "serviceaccounts": ["Name", "Secrets", "Age"],
    "services": ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"],
    "deployments": [
        "Name",
        "Ready",
        "Up-to-date",
        "Available",
        "Age",
        "Containers",
        "Images",
        "Selector",
    ],
    "daemonsets": [
        "Name",
        "Desired",
        "Current",
        "Ready",
        "Up-to-date",
        "Available",
        "Node Selector",
        "Age",
        "Containers",
        "Images",
        "Selector",
    ],
    "events": [
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "Subobject",
        "Source",
        "Message",
        "First Seen",
        "Count",
        "Name",
    ],
    "leases": ["Name", "Holder", "Age"],
    "roles": ["Name", "Created At"],
    "rolebindings": ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"],
    "clusterroles": ["Name", "Created At"],
    "clusterrolebindings": ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"],
    "customresourcedefinitions": ["Name", "Created At"],
}


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize("plural", COLUMNS)
async def test_the_columns_of_a_built_in_kind(kube: Any, plural: str) -> None:
    path = kube.of(plural).path()

    table = (await kube.get(path, accept=TABLE)).ok

    assert [column["name"] for column in table["columnDefinitions"]] == COLUMNS[plural]


# ---- watches ----


def seen(events: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(kind, obj["metadata"]["name"]) for kind, obj in events]


async def test_a_watch_without_a_version_begins_with_what_is(kube: Any, five: Any) -> None:
    events = await kube.watch(five.path(), 5)

    assert sorted(seen(events)) == [("ADDED", f"x{n}") for n in range(5)]
    assert {obj["kind"] for _, obj in events} == {five.kind}


async def test_a_watch_goes_on_from_a_version(kube: Any, five: Any) -> None:
    version = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]
    await kube.patch(five.path("x1"), {"metadata": {"labels": {"parity": "none"}}})
    await kube.delete(five.path("x2"))

    events = await kube.watch(five.path(), 2, resourceVersion=version)

    assert seen(events) == [("MODIFIED", "x1"), ("DELETED", "x2")]
    last = events[1][1]["metadata"]["resourceVersion"]
    assert int(last) > int(events[0][1]["metadata"]["resourceVersion"])


async def test_a_selective_watch_sees_objects_come_and_go(kube: Any, five: Any) -> None:
    version = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]
    for parity in ("odd", "even"):
        await kube.patch(five.path("x0"), {"metadata": {"labels": {"parity": parity}}})
    selector = {"labelSelector": "parity=even"}

    events = await kube.watch(five.path(), 2, resourceVersion=version, **selector)

    assert seen(events) == [("DELETED", "x0"), ("ADDED", "x0")]


async def test_one_object_can_be_watched(kube: Any, five: Any) -> None:
    version = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]
    for name in ("x0", "x3"):
        await kube.delete(five.path(name))

    one = {"fieldSelector": "metadata.name=x3", "resourceVersion": version}
    assert seen(await kube.watch(five.path(), 1, **one)) == [("DELETED", "x3")]


async def test_a_watch_of_metadata_and_of_tables(kube: Any, five: Any) -> None:
    for accept, kind in ((PARTIAL, "PartialObjectMetadata"), (TABLE, "Table")):
        asker = kube.acting()
        asker.headers["Accept"] = f"{accept},application/json"
        ((event, obj),) = await asker.watch(five.path(), 1)
        assert (event, obj["kind"]) == ("ADDED", kind)


async def test_bookmarks_tell_how_far_a_watch_is(kube: Any, five: Any) -> None:
    version = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]
    asked = {"allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": "8"}
    none_of_them = {"fieldSelector": "metadata.name=another"}

    async def change_what_is_not_watched() -> None:  # a real server at rest tells nothing
        for number in itertools.count():
            await kube.patch(five.path("x0"), {"metadata": {"labels": {"n": str(number)}}})
            await asyncio.sleep(0.2)

    changes = asyncio.create_task(change_what_is_not_watched())
    events: list[tuple[str, Any]] = []
    try:
        async with asyncio.timeout(SECONDS):
            while not events:  # none may come of so short a watch where the server is busy
                events = await kube.watch(five.path(), 1, **asked, **none_of_them)
    finally:
        changes.cancel()

    assert [kind for kind, _ in events] == ["BOOKMARK"]
    bookmark = events[0][1]
    assert bookmark["kind"] == five.kind
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(version)
    assert not bookmark["metadata"].get("name")


async def test_a_version_that_is_long_gone_is_410(kube: Any, gizmos: Any) -> None:
    if not REAL:
        pytest.skip("our server remembers its short life in full; see the tests of its store")

    ((kind, status),) = await kube.watch(gizmos.path(), 1, resourceVersion="1")

    assert kind == "ERROR"
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_a_watch_list_begins_with_everything_and_a_mark(kube: Any, five: Any) -> None:
    kube.needs(32, "watch lists")
    asked = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }

    events = await kube.watch(five.path(), 6, **asked)

    assert sorted(seen(events[:5])) == [("ADDED", f"x{n}") for n in range(5)]
    assert events[5][0] == "BOOKMARK"
    assert events[5][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_many_watches_see_the_same(kube: Any, five: Any) -> None:
    version = (await kube.get(five.path())).ok["metadata"]["resourceVersion"]
    watches = [
        asyncio.create_task(kube.watch(five.path(), 5, resourceVersion=version)) for _ in range(20)
    ]
    for number in range(5):
        await kube.delete(five.path(f"x{number}"))

    found = await asyncio.gather(*watches)

    assert [seen(events) for events in found] == [[("DELETED", f"x{n}") for n in range(5)]] * 20
