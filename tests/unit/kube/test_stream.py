"""Lines are the same however the bytes arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.kube.errors import ApiError, GoneError, UndecodableError
from laneway.kube.stream import event, lines


async def arriving(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@given(st.lists(st.text(alphabet="ab\n", max_size=6).map(str.encode), max_size=8))
async def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    whole, _, _ = b"".join(chunks).rpartition(b"\n")

    found = [line async for line in lines(arriving(chunks))]

    assert found == [line for line in whole.split(b"\n") if line]


def test_an_event_keeps_its_object_as_it_came() -> None:
    found = event(b'{"type": "ADDED", "object": {"size": 1.50}}')

    assert found.type == "ADDED"
    assert found.object == msgspec.Raw(b'{"size": 1.50}')


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (b'{"code": 410, "reason": "Expired"}', GoneError),
        (b'{"reason": "Expired"}', GoneError),
        (b'{"code": 500}', ApiError),
        (b"7", ApiError),
    ],
)
def test_an_error_is_raised(status: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        event(b'{"type": "ERROR", "object": %s}' % status)


@pytest.mark.parametrize("line", [b"", b"x", b"[]", b'{"type": 1}', b'{"type": "ADDED"}', b"\xff"])
def test_anything_else_is_no_event(line: bytes) -> None:
    with pytest.raises(UndecodableError):
        event(line)
