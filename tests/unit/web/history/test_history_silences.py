"""From when to when the history knows nothing of a node: by how long its agent is silent."""

from __future__ import annotations

from laneway.web.history.silences import LASTING_MS, SETTLED_MS, Silences
from laneway.web.history.store import Silence

SOON, LATE = 1_000, LASTING_MS + 1_000


def test_a_silence_that_lasts_is_told_from_its_begin_and_once() -> None:
    silences = Silences()
    silences.begin(0)
    assert [*silences.look(SOON, {"n1": 500})] == []
    assert silences.since("n1") is None
    assert [*silences.look(500 + LASTING_MS, {"n1": 500})] == [Silence(500, "n1")]
    assert [*silences.look(LATE, {"n1": 500})] == []
    assert (silences.since("n1"), silences.since("n2")) == (500, None)


def test_an_agent_that_is_replaced_soon_leaves_no_gap() -> None:
    silences = Silences()
    silences.begin(0)
    assert [*silences.look(SOON, {"n1": SOON})] == []
    assert [*silences.look(2 * SOON, {})] == []
    assert [*silences.look(LATE, {"n1": LATE})] == []


def test_a_silence_ends_once_the_agent_has_had_time_to_report() -> None:
    silences = Silences()
    silences.begin(0)
    list(silences.look(LATE, {"n1": 500}))
    assert [*silences.look(LATE, {})] == []
    assert [*silences.look(LATE + 1, {"n1": LATE})] == []
    assert [*silences.look(LATE + 2, {})] == []
    assert [*silences.look(LATE + SETTLED_MS, {})] == []
    assert silences.since("n1") == 500
    ended = LATE + 2 + SETTLED_MS
    assert [*silences.look(ended, {})] == [Silence(ended, "n1", ends=True)]
    assert silences.since("n1") is None


def test_nothing_is_said_of_the_time_before_observation_began() -> None:
    silences = Silences()
    silences.begin(10_000)
    assert [*silences.look(10_000, {"n1": 500})] == []
    assert [*silences.look(10_000 + LASTING_MS, {"n1": 500})] == [Silence(10_000, "n1")]
    silences.begin(90_000)
    assert silences.since("n1") is None
