"""Regular expressions as Kubernetes has them: Go's syntax, and linear time.

Python's own have another syntax, and one of them on one hostile text can run for ever. Linear as it
is, a large expression on a long text takes half a minute, so the two together are bounded.
"""

from __future__ import annotations

import functools
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no type hints

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


_WORK_LIMIT = 100_000_000
"""Steps of an expression times characters: a second at worst."""


class TooLongError(ValueError):
    """The text is too long for this expression."""


def search(pattern: str, text: str) -> Any:
    """The first match; ValueError for a pattern that is not valid or a text too long for it."""
    expression = compiled(pattern)
    if expression.programsize * len(text) > _WORK_LIMIT:
        raise TooLongError(f"{len(text)} characters are too many to be matched with '{pattern}'")
    return expression.search(text)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """An object with `search`, `fullmatch` and `finditer`; ValueError where it is not valid."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "not valid"
        kind, _, part = why.rpartition(": ")
        raise ValueError(f"error parsing regexp: {_IN_GO.get(kind, kind)}: `{part}`") from error


_IN_GO = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
