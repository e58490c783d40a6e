"""What is kept of a program's output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.printed import Tail, clean, joined


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_the_end_is_kept_however_it_came(pieces: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)

    whole = b"".join(pieces)
    text = tail.text()

    if len(whole) <= limit:
        assert text == clean(whole)
    else:
        first, _, rest = text.partition("\n")
        assert first == f"[the first {len(whole) - limit} bytes are left out]"
        assert rest == clean(whole[-limit:])


@given(st.binary() | st.text().map(str.encode))
def test_text_has_nothing_that_a_terminal_obeys(data: bytes) -> None:
    assert all(char.isprintable() or char in "\t\n" for char in clean(data))


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"])))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert clean(text.encode()) == text


def test_errors_begin_on_a_line_of_their_own() -> None:
    assert joined("out", "err") == "out\nerr"
    assert joined("out\n", "err") == "out\nerr"
    assert joined("", "err") == "err"
    assert joined("out", "") == "out"
