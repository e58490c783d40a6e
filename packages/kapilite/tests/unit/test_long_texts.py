"""A long text is judged in a time that grows with its length, whatever it consists of.

A check that took the square of it would run for hours on each of these.
"""

from __future__ import annotations

import pytest

from kapilite.cel.program import CALL_LIMIT, Budget, program
from kapilite.printers.jsonpath import UnreadableError
from kapilite.printers.tables import compile_path
from kapilite.schemas.formats import is_format

MANY = 1_000_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("duration", "1" * MANY),
        ("duration", "1 " * MANY),
        ("duration", f".{'1' * MANY}"),
        ("ipv4", f"0.{'0' * MANY}x"),
        ("cidr", f"::{'0' * MANY}.x/24"),
    ],
)
def test_a_format(name: str, text: str) -> None:
    assert not is_format(name, text)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("isSemver(self)", f"1.2.3-{'a' * MANY}!"),
        ("isSemver(self)", f"1.2.3-{'1' * MANY}"),
        ("isSemver(self, true)", f"{'1' * MANY}.2"),
        ("double(self) == 1.0 && false", f"0x{'f' * MANY}"),
    ],
)
def test_a_function_of_rules(rule: str, text: str) -> None:
    assert program(rule).evaluate({"self": text}, Budget(CALL_LIMIT)) is False


@pytest.mark.parametrize("path", [f".a[{'1' * MANY}]", f".a[?(@.b=={'1' * MANY}.1.)]"])
def test_a_path_that_cannot_be_read(path: str) -> None:
    with pytest.raises(UnreadableError):
        compile_path(path)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a" + "[0]" * 50_000, None),
        (f"'\\n{'a' * MANY}'", "\n" + "a" * MANY),
        (f".a[{'0' * MANY}]", "b"),
    ],
)
def test_a_path_that_can_be_read(path: str, found: str | None) -> None:
    assert compile_path(path).find({"a": ["b"]}) == ([] if found is None else [found])
