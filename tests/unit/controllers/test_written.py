"""How long an object is left alone after a write, whatever the cache does."""

from __future__ import annotations

import pytest

from laneway.api import ObjectMeta
from laneway.controllers.written import PATIENCE_SECONDS, Written


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def meta(version: str) -> ObjectMeta:
    return ObjectMeta(name="one", resource_version=version)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def written(clock: Clock) -> Written:
    written = Written(clock)
    written.note(meta("8"))
    written.note(meta("10"))
    return written


def test_an_object_that_was_not_written_is_not_held_up(written: Written) -> None:
    assert not written.lag("other", None)
    assert not written.lag("other", meta("1"))


@pytest.mark.parametrize("cached", [None, meta("8"), meta("9"), meta("x"), meta("")])
def test_a_cache_that_lags_behind_is_given_time_and_no_more(
    written: Written, clock: Clock, cached: ObjectMeta | None
) -> None:
    assert written.lag("one", cached) == PATIENCE_SECONDS
    clock.now += PATIENCE_SECONDS
    assert not written.lag("one", cached)


@pytest.mark.parametrize("version", ["10", "11", "100"])
def test_a_cache_that_has_the_write_is_believed_for_good(written: Written, version: str) -> None:
    assert not written.lag("one", meta(version))
    assert not written.lag("one", meta("8"))  # a server that was restored from a backup


def test_a_deleted_object_is_made_again_at_once(written: Written) -> None:
    written.forget("one")
    assert not written.lag("one", None)


@pytest.mark.parametrize("version", ["", "opaque", "\u0664\u0665"])
def test_versions_that_cannot_be_compared_hold_nothing_up(version: str) -> None:
    written = Written()
    written.note(meta(version))
    assert not written.lag("one", meta("1"))
    assert not written.lag("one", None)
