"""The steps of a field path, each as the text that it has in FieldsV1.

`f:name` is a field, `k:{"port":80}` the item of a map list, `v:"a"` the item of a set and `i:0` an
item by position. Two steps are equal exactly when their texts are, so that sets of fields are sets
of strings: whatever comes from outside is brought into the one canonical form here.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection

FIELD: Final = "f:"
_KEY: Final = "k:"
_VALUE: Final = "v:"
_INDEX: Final = "i:"

# Go's encoder writes these escaped, so they are part of the canonical text.
_ESCAPED = str.maketrans({c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", chr(0x2028), chr(0x2029))})


class MalformedElement(ValueError):  # noqa: N818 - named for what it is
    """A text that is no step of a path."""


def key(pairs: list[tuple[str, Any]]) -> str:
    """The item of a map list in which these fields have these values."""
    try:
        return _key(tuple(name for name, _ in pairs), *[value for _, value in pairs])
    except TypeError:  # not hashable: a map or a list where a scalar belongs
        return _key.__wrapped__(tuple(name for name, _ in pairs), *[value for _, value in pairs])


@functools.lru_cache(maxsize=4096, typed=True)  # typed: true is not 1
def _key(names: tuple[str, ...], *values: Any) -> str:
    return _KEY + _text(dict(sorted(zip(names, values, strict=True), key=lambda pair: pair[0])))


@functools.lru_cache(maxsize=4096, typed=True)
def value(scalar: str | float | bool) -> str:
    """The item of a set with this value."""
    return _VALUE + _text(scalar)


def decode(text: str) -> str | None:
    """The canonical form; None for a kind of step that a later version of the format may have."""
    if text.startswith(FIELD):
        return text
    return _decode(text)


@functools.lru_cache(maxsize=4096)
def _decode(text: str) -> str | None:
    if text[1:2] != ":":
        raise MalformedElement(f"{text!r} does not begin with the kind of a path element")
    head, body = text[:2], text[2:]
    if head == _INDEX:
        try:
            return f"{_INDEX}{int(body)}"
        except ValueError:
            raise MalformedElement(f"{text!r} has no number") from None
    if head not in (_KEY, _VALUE):
        return None
    found = _parsed(body)
    if head == _VALUE:
        return _VALUE + _text(found)
    if not isinstance(found, dict):
        raise MalformedElement(f"{text!r} has no keys")
    return _KEY + _text(dict(sorted(found.items())))


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise MalformedElement(f"{body!r} is not JSON") from None


def _text(content: Any) -> str:
    text = json.dumps(_plain(content), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_ESCAPED)


def _plain(content: Any) -> Any:
    """Numbers that are equal get one text."""
    if isinstance(content, float) and content.is_integer() and abs(content) < 2**53:
        return int(content)
    if isinstance(content, dict):
        return {name: _plain(item) for name, item in content.items()}
    if isinstance(content, list):
        return [_plain(item) for item in content]
    return content


def ranked(found: Collection[str]) -> list[str]:
    """Sorted as Kubernetes does: fields, keys, values, positions."""
    if found and max(found) < "g":  # fields alone, as nearly everywhere
        return sorted(found)
    return sorted(found, key=_place)


def _place(element: str) -> tuple[int, Any]:
    if element.startswith(FIELD):
        return 0, element
    return _rank(element)


@functools.lru_cache(maxsize=4096)
def _rank(element: str) -> tuple[int, Any]:
    head, body = element[:2], element[2:]
    if head == _INDEX:
        return 3, int(body)
    content = json.loads(body)
    if head == _KEY:
        return 1, tuple((name, _order(item)) for name, item in content.items())
    return 2, _order(content)


def _order(content: Any) -> tuple[int, Any]:
    match content:
        case bool():
            return 2, content
        case int() | float():
            return 0, content
        case str():
            return 1, content
        case list():
            return 3, tuple(map(_order, content))
        case dict():
            return 4, tuple((name, _order(content[name])) for name in sorted(content))
    return 5, 0


def shown(element: str) -> str:
    """As messages write it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`."""
    head, body = element[:2], element[2:]
    if head == FIELD:
        return f".{body}"
    if head == _INDEX:
        return f"[{body}]"
    content = json.loads(body)
    if head == _VALUE:
        return f"[={_shown(content)}]"
    return f"[{','.join(f'{name}={_shown(item)}' for name, item in content.items())}]"


def _shown(content: Any) -> str:
    match content:
        case list():
            return f"[{','.join(map(_shown, content))}]"
        case dict():
            return f"{{{';'.join(f'{k}={_shown(v)}' for k, v in sorted(content.items()))}}}"
    return json.dumps(content, ensure_ascii=False)
