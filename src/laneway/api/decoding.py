"""JSON to objects and back.

Decoding accepts what is stored, also by others: unknown fields are ignored and nulls, which Go
clients write for empty lists and maps and the CRDs allow, count as absent. The common case costs
one typed decode; only an object that fails it is parsed again without its nulls.

A decoded object is a view: it lacks the fields that Laneway does not know. Never send one back
whole; send a merge patch of what changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from laneway.core.raw import Json, at

T = TypeVar("T")


class DecodeError(ValueError):
    """An object that cannot be read; the text names it, the field and what is wrong there."""


@cache
def _decoder(cls: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls)


_TEXT = (bytes, msgspec.Raw)


def decode(cls: type[T], raw: bytes | msgspec.Raw | Json) -> T:
    """Read an object from JSON text or from parsed JSON. Raises DecodeError."""
    plain = None if isinstance(raw, _TEXT) else raw
    try:
        try:
            if isinstance(raw, _TEXT):
                return cast("T", _decoder(cast("Hashable", cls)).decode(raw))
            return msgspec.convert(raw, cls)
        except msgspec.ValidationError:
            if isinstance(raw, _TEXT):
                plain = msgspec.json.decode(raw)
            return msgspec.convert(without_nulls(plain), cls)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"{_title(cls, plain)}: {error}") from None


def without_nulls(value: Json) -> Json:
    """A copy in which what was null is absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def _title(cls: type[T], plain: Json) -> str:
    """Kind and name, as far as the object says them."""
    name, kind = at(plain, ("metadata", "name")), at(plain, ("kind",))
    title = kind if isinstance(kind, str) and kind else cls.__name__
    return f"{title} {name}" if isinstance(name, str) and name else title


def to_json(value: msgspec.Struct) -> bytes:
    """JSON text; defaults are left out, `apiVersion` and `kind` never."""
    return msgspec.json.encode(value)


def to_builtins(value: msgspec.Struct) -> dict[str, Json]:
    """The same as dicts and lists."""
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(value))
    return plain


def replacing(value: msgspec.Struct) -> dict[str, Json]:
    """The same as a merge patch that leaves nothing of before: absent fields are null."""
    blank: dict[str, Json] = dict.fromkeys(value.__struct_encode_fields__)
    return blank | to_builtins(value)
