"""What the server can choose is all that is received; where it cannot, nothing is missed."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.kube.narrowed import NarrowedInformer, list_narrowed

MINE = "spec.owner=me"


def names(informer: Any) -> set[str]:
    return {obj.metadata.name for obj in informer.store}


def selectors(seen: list[Any]) -> list[str]:
    return [one.query.get("fieldSelector", "") for one in seen]


@pytest.fixture
def refused(plain: Any) -> Any:
    return plain.body(400, plain.failure(400, "BadRequest"))


async def test_only_what_the_server_chooses_is_listed_and_watched(plain: Any, until: Any) -> None:
    plain.replies.append(plain.items(100, plain.thing("mine", 90)))

    async with plain.informer(NarrowedInformer, narrow=MINE) as informer:
        await until(lambda: plain.watched)

    assert names(informer) == {"mine"}
    assert selectors(plain.seen) == [MINE, MINE]


async def test_all_are_listed_and_watched_where_the_server_does_not_choose(
    plain: Any, refused: Any, until: Any
) -> None:
    all_of_them = plain.items(100, plain.thing("mine", 90), plain.thing("other", 91))
    plain.replies += [refused, all_of_them, refused]

    async with plain.informer(NarrowedInformer, narrow=MINE) as informer:
        await until(lambda: plain.watched)

    assert names(informer) == {"mine", "other"}
    assert selectors(plain.watched) == [""]
    assert plain.pauses == []


async def test_a_server_that_chooses_by_now_is_asked_for_no_more_than_needed(
    plain: Any, refused: Any, until: Any
) -> None:
    """As after the upgrade of a definition: a watch ends, and is not resumed as it was."""
    all_of_them = plain.items(100, plain.thing("mine", 90), plain.thing("other", 91))
    chosen = plain.items(200, plain.thing("mine", 90))
    plain.replies += [refused, all_of_them, refused, chosen, chosen]
    plain.watches.append(plain.stream(plain.change("BOOKMARK", plain.thing("", 150))))

    async with plain.informer(NarrowedInformer, narrow=MINE) as informer:
        await until(lambda: len(plain.watched) == 2)

    assert names(informer) == {"mine"}
    assert selectors(plain.watched) == ["", MINE]


async def test_a_server_that_does_not_choose_any_more_is_asked_for_all(
    plain: Any, refused: Any, until: Any
) -> None:
    """As after the return of an earlier definition."""
    all_of_them = plain.items(200, plain.thing("mine", 90), plain.thing("other", 91))
    plain.replies += [plain.items(100, plain.thing("mine", 90)), refused, all_of_them, refused]
    plain.watches.append(refused)

    async with plain.informer(NarrowedInformer, narrow=MINE) as informer:
        await until(lambda: len(plain.watched) == 2)

    assert names(informer) == {"mine", "other"}
    assert selectors(plain.watched) == [MINE, ""]


async def test_a_list_comes_in_pages_that_are_as_small_as_requested(
    plain: Any, things: Any
) -> None:
    plain.replies.append(plain.items(100, plain.thing("mine", 90), more="rest"))

    async with plain.client() as client:
        await anext(list_narrowed(client, things, MINE, limit=1))

    assert [one.query["limit"] for one in plain.listed] == ["1"]


async def test_a_list_is_of_all_where_the_server_does_not_choose(
    plain: Any, refused: Any, things: Any
) -> None:
    plain.replies += [refused, plain.items(100, plain.thing("other", 91), plain.thing("mine", 90))]

    async with plain.client() as client:
        pages = [page async for page in list_narrowed(client, things, MINE)]

    assert [len(page.items) for page in pages] == [2]
