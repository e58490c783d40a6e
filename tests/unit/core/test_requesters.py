"""The note with the users who request devices: nonsense in it is no user."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.keys import ANNOTATION_REQUESTERS
from laneway.core.requesters import MOST, User, read, written

USERS = st.builds(User, st.text(min_size=1), st.lists(st.text()).map(tuple))


@given(st.lists(USERS, unique_by=lambda one: one.username, max_size=MOST))
def test_what_was_written_is_read(users: list[User]) -> None:
    text = written(users)

    assert read({ANNOTATION_REQUESTERS: text} if text else {}) == tuple(users)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for user in read({ANNOTATION_REQUESTERS: text}):
        assert isinstance(user.username, str)


@pytest.mark.parametrize("text", ["", "{}", "[[]]", '[{"groups": []}]', "[" * 10_000, '["a"]'])
def test_nonsense_is_no_user(text: str) -> None:
    assert read({ANNOTATION_REQUESTERS: text}) == ()


def test_a_user_is_noted_once_and_only_the_latest_are_kept() -> None:
    users: list[Any] = [User(str(number)) for number in range(2 * MOST)]

    found = read({ANNOTATION_REQUESTERS: written([User("0", ("old",)), *users])})

    assert found == tuple(users[-MOST:])
    assert written([User("a"), User("a", ("g",))]) == written([User("a", ("g",))])
