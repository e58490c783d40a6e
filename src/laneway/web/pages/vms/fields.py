"""The fields of the form of devices: in the query while it is edited, in the body once it is sent.

Fields are `count:RESOURCE`, how many of a type; `device`, devices by name; `detach`, entries that
the VM is to lose; `node` and `find`, which devices are listed. What cannot be read counts as
nothing, and what is no number is a problem of its field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from laneway.web.visit import Visit

COUNT = "count:"
MOST = 64
"""So many devices of a VM are judged."""
_NOT_EDITED = ("csrf", "check")


class Typed(NamedTuple):
    """All fields of a form as they were typed."""

    fields: tuple[tuple[str, str], ...]

    def get(self, key: str, default: str = "") -> str:
        return next((value.strip() for name, value in self.fields if name == key), default)

    def all(self, key: str) -> tuple[str, ...]:
        found = (value.strip() for name, value in self.fields if name == key)
        return tuple(dict.fromkeys(filter(None, found)))[:MOST]

    @property
    def counts(self) -> Mapping[str, str]:
        """The fields for so many of a type, where something is entered."""
        return {
            name.removeprefix(COUNT): value.strip()
            for name, value in self.fields
            if name.startswith(COUNT) and value.strip() not in ("", "0")
        }

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """The same as numbers; what is none is left out."""
        return [(resource, int(text)) for resource, text in self.counts.items() if _is_count(text)]

    @property
    def wrong(self) -> Mapping[str, str]:
        """Fields that hold no number of devices, by name."""
        return {
            f"{COUNT}{resource}": text
            for resource, text in self.counts.items()
            if not _is_count(text)
        }


def typed(visit: Visit) -> Typed:
    """The fields of the form, as the address has them."""
    return Typed(visit.place.query)


def sent(visit: Visit) -> Typed:
    """The fields that were sent, which the address has from then on as if they were edited.

    So the same form shows it again, and its live part goes on with it.
    """
    fields = [
        (name, value)
        for name, values in visit.form.items()
        if name not in _NOT_EDITED
        for value in values
    ]
    visit.place = msgspec.structs.replace(visit.place, query=tuple(fields))
    return typed(visit)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:4]) <= MOST and len(text) < 4
