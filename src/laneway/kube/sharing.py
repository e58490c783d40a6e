"""Parts of cached objects that are equal, kept once.

A large cluster has a hundred thousand devices, and most of what each says is said by its neighbours
too. What is shared must not be changed; it may be forgotten here and kept a second time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

import msgspec

from laneway.api import Condition

H = TypeVar("H", bound=Hashable)

NOTHING: Mapping[str, str] = MappingProxyType({})


@lru_cache(maxsize=1 << 16)
def one(value: H) -> H:
    """The first of all that are equal to this, as long as it was met not too long ago."""
    return value


@lru_cache(maxsize=1 << 14)
def mapping(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The mapping of these items, in their order."""
    return MappingProxyType(dict(items))


def timeless(conditions: Sequence[Condition]) -> Sequence[Condition]:
    """Conditions without the time of their last change, which makes equal ones differ."""
    found: Sequence[Condition] = one(
        tuple(msgspec.structs.replace(each, last_transition_time="") for each in conditions)
    )
    return found
