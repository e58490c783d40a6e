"""The store converges to the collection whatever happens to the connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from laneway.kube.informer import MAX_DELAY
from laneway.kube.resource import Key


def names(informer: Any) -> set[str]:
    return {obj.metadata.name for obj in informer.store}


@pytest.mark.parametrize("end", ["close", "reset", "cut"])
async def test_a_broken_watch_is_resumed_where_it_stopped(script, until, end: str) -> None:
    script.replies.append(script.items(100, script.thing("a", 90)))
    script.watches.append(script.stream(script.change("ADDED", script.thing("b", 101)), end=end))
    script.watches.append(
        script.stream(script.change("ADDED", script.thing("c", 102)), end="silence")
    )

    async with script.informer() as informer:
        await until(lambda: names(informer) == {"a", "b", "c"})

    assert [one.query["resourceVersion"] for one in script.watched] == ["100", "101"]
    assert len(script.listed) == 1


@pytest.mark.parametrize("after_an_event", [True, False])
async def test_an_expired_version_means_a_new_list_that_shows_deletions(
    script, until, after_an_event: bool
) -> None:
    before = [script.change("MODIFIED", script.thing("a", 101))] if after_an_event else []
    gone = script.change("ERROR", script.failure(410, "Expired"))
    script.replies += [
        script.items(100, script.thing("a", 90), script.thing("b", 91)),
        script.items(200, script.thing("b", 91), script.thing("c", 150)),
    ]
    script.watches.append(script.stream(*before, gone))
    changes: list[tuple[str | None, str | None]] = []

    async with script.informer() as informer:
        await informer.synced.wait()
        informer.subscribe(
            lambda old, new: changes.append((old and old.metadata.name, new and new.metadata.name))
        )
        await until(lambda: len(script.watched) == 2)

    assert names(informer) == {"b", "c"}
    assert (None, "c") in changes
    assert ("a", None) in changes
    assert ("b", "b") not in changes
    assert script.watched[1].query["resourceVersion"] == "200"


async def test_410_as_the_answer_means_a_new_list_too(script, until) -> None:
    script.replies += [script.items(100, script.thing("a", 90)), script.items(200)]
    script.watches.append(script.body(410, script.failure(410, "Gone")))

    async with script.informer() as informer:
        await until(lambda: len(script.watched) == 2)

    assert names(informer) == set()


async def test_a_server_error_is_waited_out_and_the_watch_resumed(script, until) -> None:
    script.replies.append(script.items(100))
    script.watches += [script.body(500, b"<html>oops"), script.body(500, script.failure(500))]
    script.watches.append(
        script.stream(script.change("ADDED", script.thing("a", 101)), end="silence")
    )

    async with script.informer() as informer:
        await until(lambda: names(informer) == {"a"})

    assert len(script.listed) == 1
    assert len(script.pauses) == 2
    assert script.pauses[0] < script.pauses[1]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_peer_that_falls_silent_for_ever_is_left(script, until, answered: bool) -> None:
    script.replies.append(script.items(100))
    event = script.change("ADDED", script.thing("a", 101))
    script.watches.append(script.stream(event, end="silence") if answered else script.silence)
    script.watches.append(script.stream(event))

    async with script.informer(silence=0.2) as informer:
        await until(lambda: len(script.watched) >= 2 and names(informer) == {"a"})

    assert informer.counts.failures >= 1


async def test_a_list_that_fails_is_tried_again(script, until) -> None:
    page = script.items(100, script.thing("a", 90))
    script.replies += [script.reset, script.body(500, b""), page]

    async with script.informer() as informer:
        await informer.synced.wait()

    assert names(informer) == {"a"}


async def test_a_kind_that_is_not_served_is_reported_and_tried_again(script, until) -> None:
    script.replies += [
        script.body(404, script.failure(404, "NotFound")),
        script.items(100, script.thing("a", 90)),
    ]

    async with script.informer() as informer:
        await informer.answered.wait()
        assert informer.unserved
        assert not informer.synced.is_set()
        await informer.synced.wait()

    assert not informer.unserved
    assert names(informer) == {"a"}


@pytest.mark.parametrize(
    ("optional", "levels"), [(False, ["WARNING", "DEBUG"]), (True, ["INFO", "DEBUG"])]
)
async def test_a_kind_that_a_cluster_need_not_have_is_missed_quietly(
    script, caplog, optional: bool, levels: list[str]
) -> None:
    script.replies += [script.body(404, script.failure(404, "NotFound"))] * 2
    script.replies.append(script.items(100))

    with caplog.at_level(logging.DEBUG, logger="laneway.kube.informer"):
        async with script.informer(optional=optional) as informer:
            await informer.synced.wait()

    assert [one.levelname for one in caplog.records] == levels


async def test_nothing_is_synced_before_the_last_page(script, until) -> None:
    script.replies += [
        script.items(100, script.thing("a", 1), more="next"),
        script.body(500, b"no"),
        script.items(100, script.thing("a", 1), more="next"),
        script.items(100, script.thing("b", 2)),
    ]

    async with script.informer() as informer:
        synced_with = asyncio.create_task(informer.synced.wait())
        await synced_with
        assert names(informer) == {"a", "b"}

    assert [one.query.get("continue") for one in script.listed] == [None, "next", None, "next"]
    assert {one.query["limit"] for one in script.listed} == {"500"}


async def test_a_list_that_expires_while_it_is_read_is_taken_in_one_piece(plain) -> None:
    plain.replies += [
        plain.items(100, plain.thing("a", 1), more="next"),
        plain.body(410, plain.failure(410, "Expired")),
        plain.items(101, plain.thing("b", 2)),
    ]

    async with plain.informer() as informer:
        await informer.synced.wait()

    assert names(informer) == {"b"}
    assert "limit" not in plain.listed[2].query


async def test_bookmarks_move_the_version_to_resume_from(script, until) -> None:
    script.replies.append(script.items(100))
    bookmark = script.change("BOOKMARK", {"metadata": {"resourceVersion": "777"}})
    script.watches.append(script.stream(bookmark))

    async with script.informer():
        await until(lambda: len(script.watched) == 2)

    first, second = script.watched
    assert first.query["allowWatchBookmarks"] == "true"
    assert second.query["resourceVersion"] == "777"


async def test_the_servers_time_limit_is_jittered(plain, until) -> None:
    plain.replies.append(plain.items(100))

    async with plain.informer(watch_seconds=100):
        await until(lambda: bool(plain.watched))

    assert plain.watched[0].query["timeoutSeconds"] == "150"


async def test_lines_of_many_megabytes_are_read(script, until) -> None:
    script.replies.append(script.items(100))
    huge = script.thing("huge", 101)
    huge["metadata"]["annotations"] = {"x": "y" * 5_000_000}
    small = script.change("ADDED", script.thing("small", 102))
    script.watches.append(script.stream(script.change("ADDED", huge), small, end="silence"))

    async with script.informer() as informer:
        await until(lambda: names(informer) == {"huge", "small"})

    assert len(informer.store.get("huge").metadata.annotations["x"]) == 5_000_000


async def test_a_bad_object_hides_no_other(script, until, caplog) -> None:
    bad = script.thing("bad", 2) | {"size": "large"}
    nameless = {"metadata": {"name": 5}}
    script.replies.append(
        script.items(100, script.thing("a", 1), bad, nameless, script.thing("z", 3))
    )
    good = script.thing("bad", 101, size=7)
    worse = script.thing("z", 102) | {"size": []}
    script.watches.append(
        script.stream(
            script.change("MODIFIED", worse), script.change("ADDED", script.thing("m", 103))
        )
    )
    script.watches.append(script.stream(script.change("MODIFIED", good), end="silence"))

    with caplog.at_level(logging.ERROR):
        async with script.informer() as informer:
            await informer.synced.wait()
            assert names(informer) == {"a", "z"}
            assert set(informer.undecodable) == {Key("", "bad")}
            assert informer.counts.undecodable == 2
            await until(lambda: "bad" in names(informer))

    # What had been readable once stays known, rather than to look deleted.
    assert names(informer) == {"a", "bad", "m", "z"}
    assert set(informer.undecodable) == {Key("", "z")}
    assert "bad cannot be read" in caplog.text
    assert script.watched[1].query["resourceVersion"] == "103"


async def test_a_bad_object_that_is_deleted_is_forgotten(plain, until) -> None:
    bad = plain.thing("bad", 2) | {"size": "large"}
    plain.replies.append(plain.items(100, bad))
    plain.watches.append(plain.stream(plain.change("DELETED", bad), end="silence"))

    async with plain.informer() as informer:
        await informer.synced.wait()
        await until(lambda: not informer.undecodable)


async def test_an_object_made_again_during_an_outage_is_a_deletion_and_a_creation(
    plain, until
) -> None:
    plain.replies += [
        plain.items(100, plain.thing("a", 90, uid="first")),
        plain.items(200, plain.thing("a", 150, uid="second")),
    ]
    plain.watches.append(plain.body(410, plain.failure(410, "Expired")))
    changes: list[tuple[str | None, str | None]] = []

    async with plain.informer() as informer:
        informer.subscribe(
            lambda old, new: changes.append((old and old.metadata.uid, new and new.metadata.uid))
        )
        await until(lambda: len(plain.watched) == 2)

    assert changes == [(None, "first"), ("first", None), (None, "second")]


async def test_late_subscribers_hear_what_is_known_and_one_that_fails_disturbs_no_other(
    plain, until, caplog
) -> None:
    plain.replies.append(plain.items(100, plain.thing("a", 1), plain.thing("b", 2)))
    added = asyncio.Event()

    def show(old: Any, new: Any) -> None:
        heard.append(new.metadata.name)
        if new.metadata.name == "c":
            added.set()

    def fail(old: Any, new: Any) -> None:
        raise RuntimeError("a bug")

    heard: list[str] = []
    go_on = asyncio.Event()

    async def later(writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await plain.stream(plain.change("ADDED", plain.thing("c", 101)), end="silence")(writer)

    plain.watches.append(later)
    async with plain.informer() as informer:
        await informer.synced.wait()
        informer.subscribe(fail)
        informer.subscribe(show)
        assert heard == ["a", "b"]
        go_on.set()
        await added.wait()

    assert heard == ["a", "b", "c"]
    assert "a handler failed" in caplog.text


async def test_indexes_follow_the_changes(plain, until) -> None:
    plain.replies.append(plain.items(100, plain.thing("a", 1, size=1), plain.thing("b", 2, size=1)))
    plain.watches.append(
        plain.stream(
            plain.change("MODIFIED", plain.thing("a", 101, size=2)),
            plain.change("DELETED", plain.thing("b", 102, size=1)),
            end="silence",
        )
    )

    async with plain.informer(indexers={"size": lambda obj: [obj.size]}) as informer:
        await until(lambda: names(informer) == {"a"})

    assert informer.store.values("size") == {2}
    assert [obj.metadata.name for obj in informer.store.by("size", 2)] == ["a"]


async def test_a_quiet_one_is_silent_about_what_differs_in_its_version_alone(script, until) -> None:
    script.replies.append(script.items(100, script.thing("a", 90)))
    heartbeat = {**script.thing("a", 101), "heard": "just now"}
    script.watches.append(
        script.stream(
            script.change("MODIFIED", heartbeat),
            script.change("MODIFIED", script.thing("b", 102)),
            script.change("MODIFIED", script.thing("a", 103, size=5)),
            end="silence",
        )
    )
    seen: list[tuple[str, str]] = []

    async with script.informer(quiet=True) as informer:
        informer.follow(lambda it: seen.append((it.metadata.name, it.metadata.resource_version)))
        await until(lambda: len(seen) == 3)

    assert seen == [("a", "90"), ("b", "102"), ("a", "103")]


async def test_selectors_narrow_both_the_list_and_the_watch(plain, until) -> None:
    plain.replies.append(plain.items(100))

    async with plain.informer(
        namespace="team", label_selector="node=n1,!x", field_selector="metadata.name=a"
    ):
        await until(lambda: bool(plain.watched))

    for one in plain.seen:
        assert one.path == "/apis/example.org/v1/namespaces/team/things"
        assert one.query["labelSelector"] == "node=n1,!x"
        assert one.query["fieldSelector"] == "metadata.name=a"


@pytest.mark.parametrize("how", ["closes", "refuses", "expires"])
async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(plain, until, how) -> None:
    endings = {
        "closes": plain.stream(),
        "refuses": plain.body(403, plain.failure(403, "Forbidden")),
        "expires": plain.stream(plain.change("ERROR", plain.failure(410, "Expired"))),
    }
    plain.replies += [plain.items(100)] * 20
    plain.watches += [endings[how]] * 9

    async with plain.informer():
        await until(lambda: len(plain.watched) == 10)

    assert len(plain.pauses) == 9
    assert plain.pauses == sorted(plain.pauses)
    assert plain.pauses[-1] == MAX_DELAY * 0.75


async def test_a_server_that_does_not_know_our_version_is_listed_again(plain, until) -> None:
    """Restored from a backup, it answers neither events nor 410 to a version of the future."""
    plain.replies += [plain.items(1000, plain.thing("a", 900)), plain.items(5)]
    plain.watches += [plain.body(504, plain.failure(504, "Timeout"))] * 3

    async with plain.informer() as informer:
        await until(lambda: len(plain.watched) == 4)

    assert names(informer) == set()
    assert plain.watched[3].query["resourceVersion"] == "5"


async def test_a_line_that_is_no_event_ends_in_a_new_list(plain, until) -> None:
    plain.replies += [plain.items(100), plain.items(200, plain.thing("a", 150))]
    plain.watches.append(plain.stream(b"garbage\n"))

    async with plain.informer() as informer:
        await until(lambda: names(informer) == {"a"})


async def test_a_server_that_says_when_to_come_back_is_obeyed(plain, until) -> None:
    plain.replies.append(plain.items(100))
    reported = plain.failure(500, "InternalError", details={"retryAfterSeconds": 17})
    plain.watches.append(plain.body(500, reported))

    async with plain.informer():
        await until(lambda: len(plain.watched) == 2)

    assert plain.pauses == [17.0]


async def test_a_bad_object_that_vanished_during_an_outage_is_forgotten(plain, until) -> None:
    bad = plain.thing("bad", 2) | {"size": "large"}
    plain.replies += [plain.items(100, bad), plain.items(200)]
    plain.watches.append(plain.body(410, plain.failure(410, "Expired")))

    async with plain.informer() as informer:
        await until(lambda: len(plain.watched) == 2)

    assert informer.undecodable == {}


async def test_a_watch_that_brought_something_is_resumed_without_a_pause(plain, until) -> None:
    plain.replies.append(plain.items(100))
    for version in (101, 102, 103):
        plain.watches.append(plain.stream(plain.change("ADDED", plain.thing("a", version))))

    async with plain.informer():
        await until(lambda: len(plain.watched) == 4)

    assert plain.pauses == []


async def test_an_idle_watch_that_ran_its_time_is_resumed_without_a_pause(plain, until) -> None:
    now = 0.0

    async def idle(writer: asyncio.StreamWriter) -> None:
        nonlocal now
        now += 300
        await plain.stream()(writer)

    plain.replies.append(plain.items(100))
    plain.watches += [idle] * 5

    async with plain.informer(clock=lambda: now):
        await until(lambda: len(plain.watched) == 6)

    assert plain.pauses == []
    assert len(plain.listed) == 1


async def test_connections_that_are_cut_when_idle_cost_no_lists(plain, until) -> None:
    """As by a middlebox that forgets them after some minutes."""
    now = 0.0

    async def cut(writer: asyncio.StreamWriter) -> None:
        nonlocal now
        now += 240
        await plain.stream(end="reset")(writer)

    plain.replies.append(plain.items(100))
    plain.watches += [cut] * 7

    async with plain.informer(clock=lambda: now):
        await until(lambda: len(plain.watched) == 8)

    assert len(plain.listed) == 1
    assert len(set(plain.pauses)) == 1
