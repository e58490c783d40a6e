"""Records of /dev/kmsg."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.kernel.log import added, parse_record


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"3,339,5140900,-;NVRM: loading\n", "NVRM: loading"),
        (
            b"6,340,5140901,-,caller=T1;vfio; enabled\n SUBSYSTEM=pci\n DEVICE=+pci:x\n",
            "vfio; enabled",
        ),
        (b"12,341,5140902,c;two\\x0alines\n", "two\\x0alines"),
        (b"6,342,5140903,-;\n", ""),
        (b"6,343,5140904,-;\xff\n", "\N{REPLACEMENT CHARACTER}"),
        (b" SUBSYSTEM=pci;x\n", ""),
        (b"no record", ""),
        (b"", ""),
    ],
)
def test_the_message_is_separated_from_what_follows_it(record: bytes, message: str) -> None:
    assert parse_record(record) == message


@given(st.binary())
def test_any_bytes_are_a_message_of_one_line_or_none(record: bytes) -> None:
    assert "\n" not in parse_record(record)


def test_what_came_to_a_log_is_found_though_its_beginning_is_overwritten() -> None:
    assert added(["a", "b"], ["a", "b", "b"]) == ["b"]
    assert added(["a", "b", "c"], ["c", "d", "e"]) == ["d", "e"]
    assert added(["a"], ["x", "y"]) == ["x", "y"]
    assert added(["a"], ["a"]) == []
    assert added([], ["a"]) == ["a"]
