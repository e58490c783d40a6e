"""Watch streams: where they begin, what selectors show, and how they end."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kapilite.kinds import Kind
from kapilite.reads import watch as watch_module
from kapilite.server import ApiServer
from kapilite.storage.events import Event, Fanout, Key


async def take(events: AsyncIterator[dict[str, Any]], count: int) -> list[tuple[str, str]]:
    """Type and name of the next events."""
    async with asyncio.timeout(30):
        found = [await anext(events) for _ in range(count)]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


@pytest.mark.parametrize("since", ["", "0"])
async def test_a_watch_from_nowhere_begins_with_what_exists(
    api: Any, widgets: str, make_widget: Any, since: str
) -> None:
    await api("POST", widgets, make_widget("b"))
    await api("POST", widgets, make_widget("a"))

    async with api.watch(widgets, resourceVersion=since) as events:
        assert await take(events, 2) == [("ADDED", "a"), ("ADDED", "b")]
        await api("DELETE", f"{widgets}/a")
        assert await take(events, 1) == [("DELETED", "a")]


async def test_a_watch_resumes_where_another_ended(
    api: Any, widgets: str, make_widget: Any
) -> None:
    first = (await api("POST", widgets, make_widget("a"))).body
    await api.patch(f"{widgets}/a", {"spec": {"size": 2}})
    await api("POST", widgets, make_widget("b"))
    await api("DELETE", f"{widgets}/a")

    async with api.watch(widgets, resourceVersion=first["metadata"]["resourceVersion"]) as events:
        assert await take(events, 3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        await api("POST", widgets, make_widget("c"))
        assert await take(events, 1) == [("ADDED", "c")]


async def test_a_deletion_has_a_resource_version_to_resume_from(
    api: Any, widgets: str, make_widget: Any
) -> None:
    made = (await api("POST", widgets, make_widget("a"))).body["metadata"]
    await api("DELETE", f"{widgets}/a")

    async with api.watch(widgets, resourceVersion=made["resourceVersion"]) as events:
        event = await anext(events)
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(made["resourceVersion"])
    assert event["object"]["metadata"]["uid"] == made["uid"]


@pytest.mark.parametrize("live", [True, False], ids=["live", "out of the log"])
async def test_a_selector_shows_the_selected_set(
    api: Any, widgets: str, make_widget: Any, live: bool
) -> None:
    rv = (await api("GET", widgets)).body["metadata"]["resourceVersion"]

    async def story() -> None:
        await api("POST", widgets, make_widget("never", {"on": "no"}))
        await api("DELETE", f"{widgets}/never")
        await api("POST", widgets, make_widget("a", {"on": "no"}))
        await api.patch(f"{widgets}/a", {"metadata": {"labels": {"on": "yes"}}})
        await api.patch(f"{widgets}/a", {"spec": {"size": 2}})
        await api.patch(f"{widgets}/a", {"metadata": {"labels": {"on": "no"}}})
        await api.patch(f"{widgets}/a", {"spec": {"size": 3}})
        await api.patch(f"{widgets}/a", {"metadata": {"labels": {"on": "yes"}}})
        await api("DELETE", f"{widgets}/a")

    if not live:
        await story()
    async with api.watch(widgets, resourceVersion=rv, labelSelector="on=yes") as events:
        if live:
            await story()
        seen = await take(events, 5)
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


async def test_a_field_selector_watches_one_object(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a"))
    await api("POST", widgets, make_widget("b"))
    async with api.watch(widgets, fieldSelector="metadata.name=b") as events:
        assert await take(events, 1) == [("ADDED", "b")]
        await api.patch(f"{widgets}/a", {"spec": {"size": 2}})
        await api.patch(f"{widgets}/b", {"spec": {"size": 2}})
        assert await take(events, 1) == [("MODIFIED", "b")]


async def test_a_watch_sees_only_its_namespace(api: Any, widgets: str, make_widget: Any) -> None:
    other = widgets.replace("default", "kube-system")
    async with api.watch(widgets) as events, api.watch("/apis/lab.example.com/v1/widgets") as every:
        await api("POST", other, make_widget("x"))
        await api("POST", widgets, make_widget("a"))
        assert await take(events, 1) == [("ADDED", "a")]
        assert await take(every, 2) == [("ADDED", "x"), ("ADDED", "a")]


async def test_a_compacted_history_is_expired(api: Any, widgets: str, make_widget: Any) -> None:
    rv = (await api("POST", widgets, make_widget("a"))).body["metadata"]["resourceVersion"]
    for size in range(2, 900):  # the history is 200 changes, cut every 500
        await api.patch(f"{widgets}/a", {"spec": {"size": size}})

    async with api.watch(widgets, resourceVersion=rv) as events:
        event = await anext(events)
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_resource_version_of_another_store_is_expired(api: Any, widgets: str) -> None:
    async with api.watch(widgets, resourceVersion="99999") as events:
        assert (await anext(events))["object"]["code"] == 410


async def test_bookmarks_tell_how_far_a_quiet_watch_is(
    api: Any, widgets: str, make_widget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "BOOKMARK_SECONDS", 0.05)
    await api("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    rv = (await api("GET", "/api/v1/nodes")).body["metadata"]["resourceVersion"]

    async with api.watch(widgets, allowWatchBookmarks="true") as events:
        event = await anext(events)

    assert event["type"] == "BOOKMARK"
    assert event["object"] == {
        "kind": "Widget",
        "apiVersion": "lab.example.com/v1",
        "metadata": {"resourceVersion": rv},
    }


async def test_bookmarks_come_while_a_selector_shows_nothing_of_what_happens(
    api: Any, widgets: str, make_widget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "BOOKMARK_SECONDS", 0.05)
    await api("POST", widgets, make_widget("a"))
    params = {"allowWatchBookmarks": "true", "labelSelector": "on=yes"}
    async with api.watch(widgets, **params) as events, asyncio.timeout(30):
        busy = asyncio.create_task(_keep_changing(api, f"{widgets}/a"))
        first, second = await anext(events), await anext(events)
        busy.cancel()
    assert [first["type"], second["type"]] == ["BOOKMARK", "BOOKMARK"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (first, second)]
    assert versions[0] < versions[1]


async def _keep_changing(api: Any, path: str) -> None:
    for size in itertools.count():
        await api.patch(path, {"spec": {"size": size}})


async def test_a_watch_ends_after_its_time_with_a_bookmark(
    api: Any, widgets: str, make_widget: Any
) -> None:
    rv = (await api("POST", widgets, make_widget("a"))).body["metadata"]["resourceVersion"]
    async with api.watch(widgets, timeoutSeconds=1, allowWatchBookmarks="true") as events:
        found = [event async for event in events]
    assert [event["type"] for event in found] == ["ADDED", "BOOKMARK"]
    assert found[1]["object"]["metadata"]["resourceVersion"] == rv


async def test_initial_events_end_with_a_marked_bookmark(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a"))
    options = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    async with api.watch(widgets, **options) as events:
        assert (await anext(events))["type"] == "ADDED"
        mark = await anext(events)
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_shows_tables_to_those_who_ask(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a", size=3))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    async with api.watch(widgets, accept) as events:
        first = await anext(events)
        await api.patch(f"{widgets}/a", {"spec": {"size": 4}})
        second = await anext(events)

    assert first["object"]["kind"] == "Table"
    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Size"]
    assert first["object"]["rows"][0]["cells"] == ["a", 3]
    assert second["object"]["columnDefinitions"] == []
    assert second["object"]["rows"][0]["cells"] == ["a", 4]


async def test_stopping_the_server_ends_watches(
    api: Any, server: ApiServer, widgets: str, make_widget: Any
) -> None:
    async with api.watch(widgets) as events:
        await api("POST", widgets, make_widget("a"))
        assert await take(events, 1) == [("ADDED", "a")]
        async with asyncio.timeout(30):
            await asyncio.gather(server.stop(), _drain(events))


async def _drain(events: AsyncIterator[dict[str, Any]]) -> None:
    async for _ in events:
        pass


async def test_a_watcher_that_does_not_read_is_cut_off(
    api: Any, server: ApiServer, widgets: str, make_widget: Any
) -> None:
    """And one that reads, alongside it, misses nothing."""
    assert server._store is not None
    server._store.fanout._limit = 50
    idle = socket.create_connection((server.host, server.port))
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    idle.setblocking(False)
    loop = asyncio.get_running_loop()
    request = f"GET {widgets}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    await loop.sock_sendall(idle, request)
    await loop.sock_recv(idle, 1)  # the watch has begun
    await api("POST", widgets, make_widget("a", note="x" * 100_000))

    async with api.watch(widgets) as events:
        await anext(events)
        for size in range(2, 300):
            await api.patch(f"{widgets}/a", {"spec": {"size": size}})
            assert (await anext(events))["object"]["spec"]["size"] == size

    async with asyncio.timeout(30):
        with pytest.raises(ConnectionResetError):
            await _read_all(idle)
    idle.close()


async def _read_all(connection: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
        pass


def test_an_event_is_encoded_once_for_all_watchers() -> None:
    body = b'{"apiVersion":"lab.example.com/v1","kind":"Widget","metadata":{"name":"a"}}'
    event = Event(7, "ADDED", Key("widgets.lab.example.com", "", "a"), body, None)

    first = Kind(
        group="lab.example.com",
        version="v1",
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=True,
    )
    line = event.line("ADDED", first)
    assert event.line("ADDED", first) is line
    other = json.loads(event.line("ADDED", msgspec.structs.replace(first, version="v2")))
    assert other["object"] == json.loads(body) | {"apiVersion": "lab.example.com/v2"}


async def test_a_batch_is_empty_when_its_time_has_come() -> None:
    waiting = Fanout().subscribe("r", lambda: None)
    clock = asyncio.get_running_loop().time
    later = clock() + 3600
    assert [await waiting.batch(clock() + 0.01) for _ in range(2)] == [[], []]
    waiting.offer(event := Event(1, "ADDED", Key("r", "", "a"), b"{}", None))
    assert await waiting.batch(later) == [event]
    asyncio.get_running_loop().call_soon(waiting.offer, event)
    assert await waiting.batch(later) == [event]
    assert await waiting.batch(clock() + 0.01) == []


async def test_a_full_queue_ends_only_its_own_watcher() -> None:
    fanout = Fanout(limit=2)
    slow_ended: list[bool] = []
    slow = fanout.subscribe("r", lambda: slow_ended.append(True))
    quick = fanout.subscribe("r", lambda: slow_ended.append(False))
    events = [Event(n, "ADDED", Key("r", "", str(n)), b"{}", None) for n in range(3)]
    for event in events:
        fanout.publish([event])
        assert await quick.batch(1) == [event]

    assert slow_ended == [True]
    assert slow.done
    assert await slow.batch(1) == []
