"""Whether the defaults of a schema are values that it allows.

As in Kubernetes, a default is held against the schema that it stands in: it must have no unknown
fields, its embedded resources must be whole, and it must fit. A default within the identity of an
embedded resource must leave an identity that is valid. What is below `additionalProperties` is not
looked at.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.schemas import embedded, validation
from kapilite.schemas import schema as fitting
from kapilite.schemas.schema import EMBEDDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Schema = dict[str, Any]

_IDENTITY = ("apiVersion", "kind", "metadata")


def problems(schema: Schema, path: str) -> Iterator[Problem]:
    """What is wrong with the defaults of the schema of a kind."""
    yield from _judged({**schema, EMBEDDED: True}, path, _Resource(schema, ()), is_meta=False)


class _Resource:
    """The resource that a schema is part of, and where in it."""

    def __init__(self, schema: Schema, way: tuple[str | None, ...]) -> None:
        self.schema = {**schema, EMBEDDED: True}
        self._way = way

    def below(self, name: str | None) -> _Resource:
        """A field, or with None the items of a list."""
        return _Resource(self.schema, (*self._way, name))

    def around(self, value: Any) -> dict[str, Any]:
        """A whole resource with this value at the place."""
        for name in reversed(self._way):
            value = [value] if name is None else {name: value}
        return {"apiVersion": "validation/v1", "kind": "Validation", **value}


def _judged(schema: Schema, path: str, root: _Resource, *, is_meta: bool) -> Iterator[Problem]:
    if schema.get(EMBEDDED):
        is_meta, root = False, _Resource(schema, ())
    value = schema.get("default")
    if value is not None:
        field = f"{path}.default"
        yield from (
            _in_identity(schema, value, field, root) if is_meta else _plain(schema, value, field)
        )
    if isinstance(schema.get("items"), dict):
        yield from _judged(schema["items"], f"{path}.items", root.below(None), is_meta=is_meta)
    for name, sub in (schema.get("properties") or {}).items():
        is_sub_meta = is_meta or (bool(schema.get(EMBEDDED)) and name in _IDENTITY)
        where = f"{path}.properties[{name}]"
        yield from _judged(sub, where, root.below(name), is_meta=is_sub_meta)


def _in_identity(schema: Schema, value: Any, field: str, root: _Resource) -> Iterator[Problem]:
    whole = root.around(copy.deepcopy(value))
    try:
        embedded.read(root.schema, whole)
        wrong = embedded.wrong(root.schema, whole)
    except embedded.Unreadable as error:
        wrong = [error.problem]
    if wrong:
        why = "; ".join(one.message for one in wrong)
        yield problem.invalid(field, value, f"must result in valid metadata: {why}")
    else:
        yield from _values(schema, value, field)


def _plain(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    if fitting.prune(schema, copy.deepcopy(value), is_root=bool(schema.get(EMBEDDED))):
        yield problem.invalid(field, value, "must not have unknown fields")
    try:
        embedded.read(schema, copy.deepcopy(value))
        wrong = embedded.wrong(schema, value)
    except embedded.Unreadable as error:
        wrong = [error.problem]
    if wrong:
        yield from (one._replace(field=_joined(field, one.field)) for one in wrong)
    else:
        yield from _values(schema, value, field)


def _values(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    for one in validation.value_problems(schema, value):
        inner = "" if one.field == "<nil>" else one.field
        yield one._replace(field=f"{field}.{inner}" if inner else field)


def _joined(field: str, inner: str) -> str:
    return field + (inner if inner.startswith("[") or not inner else f".{inner}")
