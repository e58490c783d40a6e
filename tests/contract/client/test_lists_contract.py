"""Lists and watches: selectors, pages, and following changes from a version on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.kube.errors import ApiError


async def make(api: Any, count: int) -> list[str]:
    made = [
        await api.create(
            f"{n:02}",
            metadata={"labels": {"run": api.run, "parity": "even" if n % 2 == 0 else "odd"}},
        )
        for n in range(count)
    ]
    return [obj["metadata"]["name"] for obj in made]


async def listed(api: Any, **params: str) -> list[str]:
    answer = await api.call("GET", params=params)
    return [obj["metadata"]["name"] for obj in answer["items"]]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("parity=even", [0, 2]),
        ("parity==odd", [1, 3]),
        ("parity!=odd", [0, 2]),
        ("parity in (odd,none)", [1, 3]),
        ("parity notin (odd)", [0, 2]),
        ("parity", [0, 1, 2, 3]),
        ("!parity", []),
        ("none!=x", [0, 1, 2, 3]),
    ],
)
async def test_labels_select(api: Any, selector: str, expected: list[int]) -> None:
    names = await make(api, 4)

    found = await listed(api, labelSelector=f"run={api.run},{selector}")

    assert found == [names[n] for n in expected]


async def test_a_name_selects(api: Any) -> None:
    names = await make(api, 3)

    assert await listed(api, fieldSelector=f"metadata.name={names[1]}") == [names[1]]


@pytest.mark.parametrize(
    "params", [{"fieldSelector": "spec.enabled=true"}, {"labelSelector": "a in ("}]
)
async def test_a_selector_that_cannot_be_served_is_refused(
    api: Any, params: dict[str, str]
) -> None:
    with pytest.raises(ApiError) as refusal:
        await api.call("GET", params=params)

    assert refusal.value.code == 400


async def test_pages_together_are_the_list(api: Any) -> None:
    names = await make(api, 5)
    params = {"labelSelector": f"run={api.run}", "limit": "2"}
    found: list[str] = []
    sizes = []
    while True:
        page = await api.call("GET", params=params)
        found += [obj["metadata"]["name"] for obj in page["items"]]
        sizes.append(len(page["items"]))
        if not page["metadata"].get("continue"):
            break
        params["continue"] = page["metadata"]["continue"]

    assert found == names
    assert sizes == [2, 2, 1]


async def test_pages_show_one_moment(api: Any) -> None:
    names = await make(api, 4)
    params = {"labelSelector": f"run={api.run}", "limit": "2"}
    first = await api.call("GET", params=params)

    await api.call("DELETE", names[3])
    token = first["metadata"]["continue"]
    second = await api.call("GET", params=params | {"continue": token})

    assert [obj["metadata"]["name"] for obj in second["items"]] == names[2:]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_watch_tells_every_change_in_order(api: Any) -> None:
    version = await api.version()
    name = api.name()
    await api.create()
    await api.merge(name, {"spec": {"enabled": True}})
    await api.merge(f"{name}/status", {"status": {"uuid": "u"}})
    await api.call("DELETE", name)

    events = await api.events(4, resource_version=version)

    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [obj["spec"]["enabled"] for _, obj in events] == [False, True, True, True]
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert versions == sorted(set(versions))


async def test_a_watch_goes_on_where_another_stopped(api: Any) -> None:
    await api.create("one")
    version = await api.version()
    await api.create("two")
    await api.create("three")
    (_, two), *_ = await api.events(1, resource_version=version)

    rest = await api.events(1, resource_version=two["metadata"]["resourceVersion"])

    assert two["metadata"]["name"] == api.name("two")
    assert [obj["metadata"]["name"] for _, obj in rest] == [api.name("three")]


async def test_a_waiting_watch_gets_it_at_once(api: Any) -> None:
    waiting = asyncio.create_task(api.events(1, resource_version=await api.version()))

    await api.create()

    ((kind, obj),) = await waiting
    assert (kind, obj["metadata"]["name"]) == ("ADDED", api.name())


async def test_to_a_selective_watch_an_object_comes_and_goes_with_its_label(api: Any) -> None:
    version = await api.version()
    selector = f"run={api.run}"
    await api.create()
    for labels in ({"run": api.run}, {"other": "1"}, {"run": None}, {"run": api.run}):
        await api.merge(api.name(), {"metadata": {"labels": labels}})

    events = await api.events(4, resource_version=version, label_selector=selector)

    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]


async def test_a_watch_ends_when_its_time_is_over(api: Any) -> None:
    events = await api.events(1, resource_version=await api.version(), server_seconds=1)

    assert events == []
