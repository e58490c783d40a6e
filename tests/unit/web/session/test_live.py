"""Sessions end when they should, and their ids with them."""

from __future__ import annotations

import pytest

from laneway.core.fleet.model import Fleet
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.web.planning import Uploaded
from laneway.web.session.identity import Person, client_for
from laneway.web.session.live import Limits, Session, Sessions

LIMITS = Limits(idle=100, longest=1000, rotate=50, grace=10, of_a_user=2, of_all=3)
BROWSER = "browser-1"
SECRET = "a-secret-token"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(LIMITS, clock)


def started(
    sessions: Sessions, user: str = "alice", ends: float | None = None, browser: str = BROWSER
) -> Session:
    client = client_for(ClusterConfig(Cluster("http://127.0.0.1:1")), SECRET)
    return sessions.start(Person(user), client, browser=browser, csrf="csrf-1", ends=ends)


def is_live(sessions: Sessions, id_: str, browser: str = BROWSER) -> bool:
    return sessions.find(id_, browser) is not None


async def test_a_session_is_found_by_its_id_in_its_browser(sessions: Sessions) -> None:
    session = started(sessions)
    found = sessions.find(session.id, BROWSER)
    assert found is not None
    assert found.session is session
    assert not is_live(sessions, "other")
    assert not is_live(sessions, "")
    assert not is_live(sessions, session.id, "browser-2")


async def test_its_text_has_no_secret(sessions: Sessions) -> None:
    session = started(sessions)
    text = repr(session)
    assert "alice" in text
    for secret in (SECRET, session.id, session.csrf, session.browser):
        assert secret not in text


async def test_it_ends_when_it_is_not_used(sessions: Sessions, clock: Clock) -> None:
    id_ = started(sessions).id
    clock.now += 40
    assert is_live(sessions, id_)
    clock.now += 99
    assert sessions.find(id_, BROWSER, uses=False)
    clock.now += 1
    assert not is_live(sessions, id_)
    assert len(sessions) == 0


async def test_it_ends_however_much_it_is_used(sessions: Sessions, clock: Clock) -> None:
    session = started(sessions)
    for _ in range(24):
        clock.now += 40
        assert is_live(sessions, session.id)
    clock.now += 40
    assert not is_live(sessions, session.id)
    assert session.ended.is_set()


async def test_it_ends_with_its_token(sessions: Sessions, clock: Clock) -> None:
    session = started(sessions, ends=clock.now + 30)
    clock.now += 30
    sessions.end_overdue()
    assert session.ended.is_set()
    assert not is_live(sessions, session.id)


async def test_its_id_is_replaced_once_the_browser_has_the_new_one(
    sessions: Sessions, clock: Clock
) -> None:
    session = started(sessions)
    first = session.id
    clock.now += 50
    found = sessions.find(first, BROWSER)
    assert found is not None
    second = found.new_id
    assert second == session.id != first
    # The answer was lost: the browser comes with the old one again, and is given the new one.
    clock.now += 45
    again = sessions.find(first, BROWSER)
    assert again is not None
    assert again.new_id == second
    assert is_live(sessions, second)
    clock.now += 9  # Requests that were on their way.
    late = sessions.find(first, BROWSER)
    assert late is not None
    assert late.new_id == ""
    clock.now += 1
    assert not is_live(sessions, first)
    assert is_live(sessions, second)


async def test_all_ids_end_with_the_session(sessions: Sessions, clock: Clock) -> None:
    session = started(sessions)
    first = session.id
    clock.now += 50
    assert is_live(sessions, first)
    sessions.end(session)
    assert not is_live(sessions, first)
    assert not is_live(sessions, session.id)
    assert not sessions._by_id


async def test_ids_do_not_add_up(sessions: Sessions, clock: Clock) -> None:
    session = started(sessions)
    for _ in range(15):
        clock.now += 60
        assert is_live(sessions, session.id)
    assert len(sessions._by_id) <= 2


async def test_too_many_sessions_end_those_used_longest_ago(
    sessions: Sessions, clock: Clock
) -> None:
    first = started(sessions)
    clock.now += 1
    second = started(sessions, browser="browser-2")
    clock.now += 1
    assert is_live(sessions, first.id)
    clock.now += 1
    third = started(sessions, browser="browser-3")
    assert second.ended.is_set()
    assert not first.ended.is_set()
    clock.now += 1
    others = [started(sessions, user, browser=f"of-{user}") for user in ("bob", "carol")]
    assert first.ended.is_set()
    assert [one.ended.is_set() for one in (third, *others)] == [False, False, False]


async def test_what_a_user_has_uploaded_goes_with_the_session(sessions: Sessions) -> None:
    session = started(sessions)
    session.own.uploaded = Uploaded("fleet.json", 1, Fleet())
    own = session.own
    sessions.end(session)
    assert own.uploaded is None
