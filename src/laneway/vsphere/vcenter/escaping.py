"""Names as people write them and as vCenter keeps them.

vCenter keeps a slash in a name as `%2f`, a backslash as `%5c` and a percent sign as `%25`, so that
slashes can divide the names of a path.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_KEPT = {"%": "%25", "/": "%2f", "\\": "%5c"}
_ESCAPE = re.compile(r"%(25|2f|5c)", re.IGNORECASE)


def escaped(name: str) -> str:
    """As vCenter keeps it; what is escaped already stays so."""
    return re.sub(
        r"%(?:25|2f|5c)|[%/\\]",
        lambda found: _KEPT.get(found[0], found[0].lower()),
        name,
        flags=re.IGNORECASE,
    )


def unescaped(name: str) -> str:
    """As people write it."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)


def same(desired: str, kept: str) -> bool:
    """Whether a name in a spec is that of an object."""
    return desired == kept or escaped(desired) == escaped(kept)


def is_pattern(desired: str) -> bool:
    """Whether a name has `*` or `?` for what it leaves open, as for govc."""
    return "*" in desired or "?" in desired


def like(desired: str, kept: str) -> bool:
    """Whether a pattern in a spec fits the name of an object. Brackets are themselves."""
    return fnmatchcase(unescaped(kept), unescaped(desired).replace("[", "[[]"))


def parts(path: str) -> tuple[str, ...]:
    """The names of an inventory path."""
    return tuple(part for part in path.split("/") if part)
