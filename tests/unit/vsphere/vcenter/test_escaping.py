"""Names with slashes, backslashes and percent signs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.vsphere.vcenter.escaping import escaped, parts, same, unescaped

NAMES = st.text(st.sampled_from("ab%/\\25fFcC "), max_size=12)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("plain", "plain"),
        ("a/b", "a%2fb"),
        ("a\\b", "a%5cb"),
        ("50%", "50%25"),
        ("a%2Fb", "a%2fb"),
        ("%2", "%252"),
    ],
)
def test_names_are_kept_as_vcenter_keeps_them(written: str, kept: str) -> None:
    assert escaped(written) == kept
    assert same(written, kept)


@given(NAMES)
def test_what_is_escaped_stays_so(name: str) -> None:
    assert escaped(escaped(name)) == escaped(name)
    assert "/" not in escaped(name)


@given(NAMES)
def test_escaping_changes_no_meaning(name: str) -> None:
    assert unescaped(escaped(name)) == unescaped(name)
    assert same(name, escaped(name))


def test_paths_divide_at_slashes_only() -> None:
    assert parts("/DC0/vm/a%2fb/") == ("DC0", "vm", "a%2fb")
    assert parts("//") == ()
