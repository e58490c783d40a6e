"""Regular expressions as Kubernetes has them: Go's syntax, and linear time.

Python's own have another syntax, and one of them on one hostile text can run for ever.
"""

from __future__ import annotations

import functools
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no type hints

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


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
