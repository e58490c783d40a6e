"""Where a user is: the path of a page and its query, which together are all of the page's state.

Filters, order, grouping and the page of a table stand in the query, so a link or a reload shows the
same again, and the stream of changes knows from the address alone what to draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

_MOST = 400
"""Fields of a query that are read."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An address of this site, taken apart."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    names: Mapping[str, str] = {}
    """What the pattern of the page found in the path."""

    def get(self, key: str, default: str = "") -> str:
        """The first value of a field of the query."""
        return next((value for name, value in self.query if name == key), default)

    def all(self, key: str) -> tuple[str, ...]:
        """Every value of a field that is not empty."""
        return tuple(value for name, value in self.query if name == key and value)

    @property
    def url(self) -> str:
        return address(self.path, self.query)

    def with_(self, **changes: str | Iterable[str]) -> str:
        """The address with these fields changed; an empty value takes one out.

        In another order or selection of rows the page of a table would be another: it becomes the
        first, unless it is what is changed.
        """
        dropped = {*changes, *(() if "page" in changes else ("page",))}
        kept = [(name, value) for name, value in self.query if name not in dropped]
        for name, value in changes.items():
            values = [value] if isinstance(value, str) else list(value)
            kept += [(name, one) for one in values if one]
        return address(self.path, kept)


def parse(target: str, names: Mapping[str, str] | None = None) -> Place:
    """A path with its query. Raises ValueError where there are too many fields."""
    path, _, query = target.partition("#")[0].partition("?")
    found = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST)
    return Place(path=path, query=tuple(found), names=names or {})


def address(path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """A path, which is quoted already, and fields that are not."""
    fields = urlencode([(name, value) for name, value in query if value])
    return f"{path}?{fields}" if fields else path


def link(*parts: str) -> str:
    """A path of these parts, whatever they contain: `link("gpus", name)` is `/gpus/NAME`."""
    return "/" + "/".join(quote(part, safe="") for part in parts)
