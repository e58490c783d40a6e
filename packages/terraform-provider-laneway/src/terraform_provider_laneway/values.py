"""Values as Terraform writes them: plain texts, numbers, lists and maps, or not known yet.

The types of `tf` take a value apart; these leave it as it came, so that what Terraform knows of a
value that it does not know yet (a refinement, an extension of its own) goes back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgpack
from tf.types import Unknown

State = dict[str, Any]
"""Attributes of a resource or of a data source, by name."""


class Type:
    """A type of Terraform, in its own notation."""

    def __init__(self, notation: str, *, key: Callable[[Any], Any] | None = None) -> None:
        """`key`: by what elements are sorted to be compared, where their order means nothing."""
        self.notation = notation
        self._key = key

    def tf_type(self) -> bytes:
        return self.notation.encode()

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value

    def semantically_equal(self, one: Any, other: Any) -> bool:
        """Whether two values mean the same."""
        if self._key and isinstance(one, list) and isinstance(other, list):
            return sorted(one, key=self._key) == sorted(other, key=self._key)
        return bool(one == other)


TEXT = Type('"string"')
NUMBER = Type('"number"')
FLAG = Type('"bool"')
TEXTS = Type('["list","string"]')
TEXT_SET = Type('["set","string"]', key=str)
COUNTS = Type('["map","number"]')
TEXT_MAP = Type('["map","string"]')


def objects(**fields: Type) -> Type:
    """A list of objects with these fields."""
    inner = ",".join(f'"{name}":{one.notation}' for name, one in fields.items())
    return Type(f'["list",["object",{{{inner}}}]]')


def is_unknown(value: Any) -> bool:
    """Whether any part of a value is to be known only once Terraform has applied something."""
    if isinstance(value, list) and not isinstance(value, msgpack.ExtType):
        return any(map(is_unknown, value))
    if isinstance(value, Mapping):
        return any(map(is_unknown, value.values()))
    return value is Unknown or isinstance(value, msgpack.ExtType)


def known(state: Mapping[str, Any]) -> bool:
    """Whether all of it is known."""
    return not is_unknown(state)


def or_unset(state: Mapping[str, Any], name: str, found: bool, *, default: bool) -> bool | None:
    """What is found; nothing where the attribute is not set and the default is what is found."""
    return None if state.get(name) is None and found == default else found
