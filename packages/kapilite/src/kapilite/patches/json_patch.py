"""JSON patches (RFC 6902), as Kubernetes applies them.

It takes more than the standard allows: an index below zero counts from the end, `replace` of a key
that is absent adds it, a value that is absent is null, and `test` finds null where nothing is. A
path is followed into maps and lists only. A test compares numbers as they are written: 1 is no 1.0.

What a patch makes is a copy that is changed in place, so that operations do not pay for the size of
the object. Copies of copies double with each: what they add up to is bounded, as in Kubernetes.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn, TypeAlias

import msgspec

from kapilite.errors import ApiError

OPERATIONS_LIMIT = 10_000
COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the copies of one patch may add up to."""

Container: TypeAlias = dict[str, Any] | list[Any]

_FIELDS = ("op", "path", "from")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")


class _Unfit(Exception):  # noqa: N818 - becomes the refusal of the patch
    """An operation does not apply."""


def apply(target: Container, patch: Any) -> Any:
    """The patched object, which shares nothing with the target; it may be none any more."""
    operations = _operations(patch)
    document = _Document(_copied(target))
    for number, operation in enumerate(operations):
        try:
            document.change(operation)
        except _Unfit as error:
            # Kubernetes keeps the reason to itself.
            raise _rejected(f"{error} ({operation.get('op')}:{number})") from None
    return document.root


def _operations(patch: Any) -> list[dict[str, Any]]:
    if patch is None:
        return []
    if not isinstance(patch, list) or not all(isinstance(op, dict) for op in patch):
        text = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        raise ApiError(400, "BadRequest", f"{text}: a JSON patch must be a list of operations")
    if len(patch) > OPERATIONS_LIMIT:
        text = "The allowed maximum operations in a JSON patch is"
        raise ApiError(413, "RequestEntityTooLarge", f"{text} {OPERATIONS_LIMIT}, got {len(patch)}")
    for number, operation in enumerate(patch):
        for field in _FIELDS:
            if not isinstance(operation.get(field), str | None):
                text = f"error decoding patch: [{number}].{field} must be a string"
                raise ApiError(400, "BadRequest", text)
    return patch


def _rejected(reason: str) -> ApiError:
    text = f"the server rejected our request due to an error in our request: {reason}"
    return ApiError(422, "Invalid", text)


class _Document:
    """The object while it is changed."""

    def __init__(self, root: Container) -> None:
        self.root: Any = root
        self._copied = 0

    def change(self, operation: dict[str, Any]) -> None:
        path, value = operation.get("path"), operation.get("value")
        match operation.get("op"):
            case "add":
                _add(*self._place(path), _copied(value))
            case "remove":
                _remove(*self._place(path))
            case "replace":
                self._replace(path, _copied(value))
            case "move":
                source = self._place(operation.get("from"))
                moved = _get(*source)
                _remove(*source)
                _add(*self._place(path), moved)
            case "copy":
                encoded = msgspec.json.encode(_get(*self._place(operation.get("from"))))
                place = self._place(path)
                self._count(len(encoded))
                _add(*place, msgspec.json.decode(encoded))
            case "test":
                found = self.root if path == "" else _get(*self._place(path))
                if not _equal(found, value):
                    _refuse("test failed")
            case name:
                _refuse(f"unknown operation: {name!r}")

    def _place(self, path: str | None) -> tuple[Container, str]:
        """Where a path ends: in what, and under which key."""
        if path is None:
            _refuse("missing path or from")
        _, *parts = (_unescaped(part) for part in path.split("/"))
        at: Any = self.root
        for part in parts[:-1]:
            at = _get(at, part)
            if not isinstance(at, dict | list):
                _refuse(f"missing path: {path}")
        if not parts:
            _refuse(f"missing path: {path}")
        return at, parts[-1]

    def _replace(self, path: str | None, value: Any) -> None:
        if path != "":
            _set(*self._place(path), value)
        elif isinstance(value, dict | list):
            self.root = value
        else:
            _refuse("value must be object or array")

    def _count(self, size: int) -> None:
        self._copied += size
        if self._copied > COPY_LIMIT:
            _refuse(f"the copies add up to {self._copied} bytes, the limit is {COPY_LIMIT}")


def _unescaped(part: str) -> str:
    return re.sub("~[01]", lambda match: "/" if match[0] == "~1" else "~", part)


def _get(at: Container, key: str) -> Any:
    return at.get(key) if isinstance(at, dict) else at[_index(key, len(at) - 1)]


def _set(at: Container, key: str, value: Any) -> None:
    if isinstance(at, dict):
        at[key] = value
    else:
        at[_index(key, len(at) - 1)] = value


def _add(at: Container, key: str, value: Any) -> None:
    if isinstance(at, dict):
        at[key] = value
    elif key == "-":
        at.append(value)
    else:
        at.insert(_index(key, len(at)), value)


def _remove(at: Container, key: str) -> None:
    if isinstance(at, list):
        del at[_index(key, len(at) - 1)]
    elif key in at:
        del at[key]
    else:
        _refuse(f"unable to remove nonexistent key: {key}")


def _index(key: str, last: int) -> int:
    """The index that a key names, up to the last that there may be."""
    if not _INDEX.fullmatch(key):
        _refuse(f"not a proper array index: {key!r}")
    index = int(key)
    if not -last - 1 <= index <= last:
        _refuse(f"invalid index: {key}")
    return index + last + 1 if index < 0 else index


def _equal(there: Any, value: Any) -> bool:
    """Whether a value that is there is what a test says, down to how numbers are written."""
    if isinstance(there, dict):
        return (
            isinstance(value, dict)
            and there.keys() == value.keys()
            and all(_equal(inner, value[key]) for key, inner in there.items())
        )
    if isinstance(there, list):
        return (
            isinstance(value, list) and len(there) == len(value) and all(map(_equal, there, value))
        )
    if isinstance(there, float) and there.is_integer() and abs(there) < 1e21:
        there = int(there)  # it is written without a point
    return type(there) is type(value) and bool(there == value)


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _refuse(reason: str) -> NoReturn:
    raise _Unfit(reason)
