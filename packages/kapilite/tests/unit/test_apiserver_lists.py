"""Lists: pages that show one moment, selectors, forms."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kapilite.reads.listing import PIECE

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def fill(api: Any, path: str, make_widget: Any, count: int) -> None:
    for number in range(count):
        labels = {"even": str(number % 2 == 0).lower()}
        made = await api("POST", path, make_widget(f"w{number}", labels, size=number))
        assert made.status == 201


def names(reply: Any) -> list[str]:
    return [item["metadata"]["name"] for item in reply.body["items"]]


async def test_a_list_has_a_resource_version_to_watch_from(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await fill(api, widgets, make_widget, 2)
    found = (await api("GET", widgets)).body
    assert found["kind"] == "WidgetList"
    assert found["apiVersion"] == "lab.example.com/v1"
    newest = max(int(item["metadata"]["resourceVersion"]) for item in found["items"])
    assert int(found["metadata"]["resourceVersion"]) == newest


async def test_pages_show_the_moment_the_list_began(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await fill(api, widgets, make_widget, 6)
    first = await api("GET", widgets, limit=2)
    assert names(first) == ["w0", "w1"]
    assert first.body["metadata"]["remainingItemCount"] == 4

    await api("DELETE", f"{widgets}/w3")
    await api.patch(f"{widgets}/w4", {"spec": {"size": 40}})
    await api.patch(f"{widgets}/w4", {"spec": {"size": 41}})
    await api("POST", widgets, make_widget("w35"))
    await api("DELETE", f"{widgets}/w0")
    await api("DELETE", f"{widgets}/w5")
    await api("POST", widgets, make_widget("w5", size=50))

    second = await api("GET", widgets, limit=2, **_continue(first))
    third = await api("GET", widgets, limit=2, **_continue(second))

    assert names(second) + names(third) == ["w2", "w3", "w4", "w5"]
    assert [item["spec"]["size"] for item in third.body["items"]] == [4, 5]
    versions = {page.body["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1
    assert "continue" not in third.body["metadata"]
    assert names(await api("GET", widgets)) == ["w1", "w2", "w35", "w4", "w5"]


def _continue(page: Any) -> dict[str, str]:
    return {"continue": page.body["metadata"]["continue"]}


async def test_a_page_whose_moment_is_compacted_is_expired(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await fill(api, widgets, make_widget, 3)
    first = await api("GET", widgets, limit=1)
    for size in range(10, 900):
        await api.patch(f"{widgets}/w2", {"spec": {"size": size}})

    late = await api("GET", widgets, limit=1, **_continue(first))

    assert (late.status, late.body["reason"]) == (410, "Expired")
    assert "start a new list" in late.body["message"]

    # What comes with the refusal goes on from the same place, in the state of now.
    await api("POST", widgets, make_widget("w05"))
    await api("DELETE", f"{widgets}/w1")
    rest = await api("GET", widgets, **_continue(late))
    assert names(rest) == ["w05", "w2"]
    newest = (await api("GET", widgets)).body["metadata"]["resourceVersion"]
    assert rest.body["metadata"]["resourceVersion"] == newest


async def test_pages_go_on_over_all_namespaces(api: Any, widgets: str, make_widget: Any) -> None:
    other = widgets.replace("default", "kube-system")
    for path, name in ((widgets, "b"), (widgets, "a"), (other, "c"), (other, "a")):
        await api("POST", path, make_widget(name))
    every = "/apis/lab.example.com/v1/widgets"
    found: list[str] = []
    page = await api("GET", every, limit=1)
    assert page.body["metadata"]["remainingItemCount"] == 3
    found += names(page)
    while "continue" in page.body["metadata"]:
        page = await api("GET", every, limit=1, **_continue(page))
        found += names(page)
    assert found == ["a", "b", "a", "c"]


async def test_what_remains_is_counted_as_of_the_first_page(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await fill(api, widgets, make_widget, 5)
    first = await api("GET", widgets, limit=1)
    await api("DELETE", f"{widgets}/w4")
    await api("POST", widgets, make_widget("x1"))
    await api("POST", widgets, make_widget("x2"))
    second = await api("GET", widgets, limit=1, **_continue(first))
    assert second.body["metadata"]["remainingItemCount"] == 3


async def test_a_made_up_token_is_refused(api: Any, widgets: str) -> None:
    for token in ("abc", "e30", "%%%", _token(rv=0), _token(rv=-2), _token(start="")):
        reply = await api("GET", widgets, **{"continue": token})
        text = "invalid continue token: continue key is not valid"
        assert (reply.status, reply.body["message"]) == (400, text)


def _token(rv: int = 5, start: str = "b\0") -> str:
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start})
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


async def test_a_token_of_another_store_is_expired(api: Any, widgets: str) -> None:
    """The store was made again between two pages, and has not come as far as the first."""
    reply = await api("GET", widgets, **{"continue": _token(rv=999_999)})
    assert (reply.status, reply.body["reason"]) == (410, "Expired")


async def test_selectors_apply_before_the_limit(api: Any, widgets: str, make_widget: Any) -> None:
    await fill(api, widgets, make_widget, 6)
    first = await api("GET", widgets, limit=2, labelSelector="even=true")
    assert names(first) == ["w0", "w2"]
    assert "remainingItemCount" not in first.body["metadata"]
    rest = await api("GET", widgets, limit=2, labelSelector="even=true", **_continue(first))
    assert names(rest) == ["w4"]
    assert names(await api("GET", widgets, fieldSelector="metadata.name=w3")) == ["w3"]
    assert (await api("GET", widgets, labelSelector="a in")).status == 400


async def test_a_list_at_an_exact_version(api: Any, widgets: str, make_widget: Any) -> None:
    await fill(api, widgets, make_widget, 2)
    rv = (await api("GET", widgets)).body["metadata"]["resourceVersion"]
    await api("DELETE", f"{widgets}/w0")

    exact = {"resourceVersion": rv, "resourceVersionMatch": "Exact"}
    assert names(await api("GET", widgets, **exact)) == ["w0", "w1"]
    assert names(await api("GET", widgets, resourceVersion=rv)) == ["w1"]
    future = await api("GET", widgets, resourceVersion="99999")
    assert future.status == 504
    assert future.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_lists_as_tables_and_as_metadata(api: Any, widgets: str, make_widget: Any) -> None:
    await fill(api, widgets, make_widget, 2)
    table = (await api("GET", widgets, headers=TABLE, limit=1)).body
    assert [row["cells"] for row in table["rows"]] == [["w0", 0]]
    assert table["metadata"]["continue"]

    accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    partial = (await api("GET", widgets, headers=accept)).body
    assert partial["kind"] == "PartialObjectMetadataList"
    assert [item.keys() for item in partial["items"]] == [{"kind", "apiVersion", "metadata"}] * 2


async def test_a_big_list_is_compressed_for_those_who_can(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a", note="x" * 200_000))
    url = api.url + widgets
    async with api.session.get(url, headers={"Accept-Encoding": "gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert len((await response.json())["items"]) == 1
        assert response.content.total_raw_bytes < 10_000
    plain = await api("GET", widgets, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_a_list_of_many_pieces_is_whole_and_in_order(
    api: Any, widgets: str, make_widget: Any, coding: str
) -> None:
    made = [f"w{number:03d}" for number in range(2 * PIECE + 1)]
    for name in made:
        await api("POST", widgets, make_widget(name, note="x" * 300))
    for form, member in (({}, "items"), (TABLE, "rows")):
        found = (await api("GET", widgets, headers=form | {"Accept-Encoding": coding})).body[member]
        assert [item.get("object", item)["metadata"]["name"] for item in found] == made


async def test_namespaces_are_listed_together_or_alone(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets.replace("default", "kube-system"), make_widget("a"))
    await api("POST", widgets, make_widget("b"))
    assert names(await api("GET", widgets)) == ["b"]
    assert names(await api("GET", "/apis/lab.example.com/v1/widgets")) == ["b", "a"]
