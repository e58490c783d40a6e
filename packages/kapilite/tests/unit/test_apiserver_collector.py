"""What follows from a deletion: in the foreground, after a restart, in spite of failures."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kapilite.admission.attributes import Attributes
from kapilite.admission.dispatch import Admission
from kapilite.deletion import worker
from kapilite.deletion.collector import CHUNK
from kapilite.errors import ApiError
from kapilite.server import ApiServer
from kapilite.storage import upkeep
from kapilite.storage.events import Key
from server_support.owners import CONFIGMAPS, blocking, exists, gone, make, owned_by, quiet

NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.lab.example.com"


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


async def test_many_dependents_delay_no_others(
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
    """A client that writes a status more often than a webhook answers must not delay requests."""
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
