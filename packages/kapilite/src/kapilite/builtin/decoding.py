"""An object of a built-in kind as Kubernetes would have decoded it.

Kubernetes reads these objects into typed structs and writes them out again: fields it does not
know are gone, nulls are gone, what is empty is left out or filled in as its type has it, and
quantities have one form. Clients compare what they sent with what they get, so the same is done
here, in one walk. The caller gets the dropped fields; a value of the wrong type is
refused in the words of Kubernetes' decoder.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite.builtin import defaults, types
from kapilite.errors import Undecodable
from kapilite.gotext.numbers import reread
from kapilite.schemas import schema
from kubebasics import quantity
from kubebasics.timestamps import timestamp

if TYPE_CHECKING:
    from kapilite.builtin.types import Field
    from kapilite.kinds import Kind

Object = dict[str, Any]

_IDENTITY = frozenset({"apiVersion", "kind"})
_ROOT = _IDENTITY | {"metadata"}
_CRD = "apiextensions.v1.CustomResourceDefinition"
_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_LIMITS = {"int32": 2**31, "int64": 2**63}
_GO_NAMES = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "double": "float64",
    "bytes": "[]uint8",
}
_ZERO: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0.0}
_SCALARS = _ZERO | {"IntOrString": 0}
_DROP = object()
_MICROSECONDS = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)$")


def complete(kind: Kind, obj: Object) -> list[str]:
    """Decode in place and fill in defaults; the paths of fields that were not known."""
    name = types.name_of(kind)
    if name is None or kind.schema is None:
        return []
    walk = _Walk(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: ')
    walk.struct(name, obj, ())
    schema.default(kind.schema, obj)
    defaults.dependent(name, obj)
    return walk.unknown


def read_metadata(value: Any, path: str) -> tuple[Object, list[str]]:
    """The metadata of a resource within an object, and the paths of what was not known."""
    meta = {} if value is None else value
    if not isinstance(meta, dict):
        raise Undecodable("must be an object")
    walk = _Walk("")
    walk.struct("meta.v1.ObjectMeta", meta, (path,))
    if meta.get("creationTimestamp") is None:
        meta.pop("creationTimestamp", None)
    return meta, walk.unknown


class _Plan(NamedTuple):
    """What is to be done about a struct besides looking at its fields."""

    fields: dict[str, Field]
    always: tuple[Field, ...]
    """Fields that are written even when they are empty."""
    typed: bool


@cache
def _plan(name: str) -> _Plan:
    fields = types.flat(name)
    always = tuple(f for f in fields.values() if not f.shape and _is_written(f))
    return _Plan(fields, always, types.struct(name).typed)


def empty(kind: Kind) -> Object:
    """An object of which nothing has been said, as Kubernetes writes it.

    What Go has as a struct is there, so the creator of an object does not come to own it.
    """
    name = types.name_of(kind)
    return {} if name is None or name == _CRD else _nothing(name)


@cache
def _nothing(name: str) -> Object:
    made: Object = {}
    for field in types.flat(name).values():
        if types.exists(field.base) and not field.shape:
            made[field.name] = _nothing(field.base)
        elif not field.omitempty or (not field.shape and _is_written(field)):
            made[field.name] = None if field.shape else _SCALARS.get(field.base)
    return made


def _is_written(field: Field) -> bool:
    if field.base in _ZERO:
        return not field.omitempty
    # A struct is never empty for Go, and a time in a struct is null.
    return types.exists(field.base) or field.base in ("Time", "MicroTime", "IntOrString")


class _Walk:
    """One pass over an object, collecting what was not known."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self.unknown: list[str] = []

    def struct(self, name: str, value: Object, path: tuple[str | int, ...]) -> None:
        """Decode the fields of a struct in place."""
        plan = _plan(name)
        skipped = frozenset[str]() if path else _ROOT
        if path and plan.typed:
            # A claim within a StatefulSet.
            skipped = _IDENTITY
            value |= {"apiVersion": "v1", "kind": name.rpartition(".")[2]}
        for key in list(value):
            if key in skipped:
                continue
            field = plan.fields.get(key)
            if field is None:
                self.unknown.append(_text((*path, key)))
                del value[key]
                continue
            result = _DROP
            if value[key] is not None:
                result = self._shaped(name, field, field.shape, value[key], (*path, key))
            if result is _DROP or (field.omitempty and _is_empty(field, result)):
                del value[key]
            else:
                value[key] = result
        for field in plan.always:
            if field.name not in value and field.name not in skipped:
                value[field.name] = self._zero(field, (*path, field.name))

    def _zero(self, field: Field, path: tuple[str | int, ...]) -> Any:
        if field.base in ("Time", "MicroTime"):
            return None
        if field.base == "IntOrString":
            return 0
        if field.base in _ZERO:
            return _ZERO[field.base]
        made: Object = {}
        self.struct(field.base, made, path)
        return made

    def _shaped(
        self, owner: str, field: Field, shape: str, value: Any, path: tuple[str | int, ...]
    ) -> Any:
        shape = shape.removeprefix("*")
        if shape.startswith("[]"):
            if not isinstance(value, list):
                self._refuse(owner, field, shape, value, path)
            return [
                self._element(owner, field, shape[2:], item, (*path, index))
                for index, item in enumerate(value)
            ]
        if shape.startswith("map:"):
            if not isinstance(value, dict):
                self._refuse(owner, field, shape, value, path)
            return {
                key: self._element(owner, field, shape[4:], item, (*path, key))
                for key, item in value.items()
            }
        return self._base(owner, field, value, path)

    def _element(
        self, owner: str, field: Field, shape: str, value: Any, path: tuple[str | int, ...]
    ) -> Any:
        """Within a list or map null is the empty value."""
        if value is not None:
            return self._shaped(owner, field, shape, value, path)
        if shape:
            return [] if shape.startswith("[]") else {}
        if field.base == "JSON":
            return None
        return self._zero(field, path) if _is_written(field) else _ZERO.get(field.base, "")

    def _base(self, owner: str, field: Field, value: Any, path: tuple[str | int, ...]) -> Any:
        base = field.base
        if base == "JSON":
            return reread(value)
        if base in ("FieldsV1", "RawExtension"):
            return value
        if base.startswith("JSONSchemaPropsOr"):
            return self._schema_or(owner, field, value, path)
        if types.exists(base):
            if not isinstance(value, dict):
                self._refuse(owner, field, "", value, path)
            self.struct(base, value, path)
            return value
        if not _fits(base, value):
            self._refuse(owner, field, "", value, path)
        try:
            return _scalar(base, value)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _schema_or(self, owner: str, field: Field, value: Any, path: tuple[str | int, ...]) -> Any:
        """A schema, or what may stand in its place.

        Kubernetes reads these apart from the rest: of fields in them that it does not know it
        says nothing, and a value of another type is none, but for what may be a boolean.
        """
        known = len(self.unknown)
        if isinstance(value, dict):
            self.struct(_SCHEMA, value, path)
        elif field.base == "JSONSchemaPropsOrBool":
            if not isinstance(value, bool):
                raise self._error("boolean or JSON schema expected")
        elif not isinstance(value, list):
            return _DROP
        elif field.base == "JSONSchemaPropsOrArray":
            one = field._replace(base=_SCHEMA)
            value = [self._element(owner, one, "", item, path) for item in value] or _DROP
        else:
            value = [
                self._element(owner, field._replace(base="string"), "", item, path)
                for item in value
            ]
        del self.unknown[known:]
        return value

    def _refuse(
        self, owner: str, field: Field, shape: str, value: Any, path: tuple[str | int, ...]
    ) -> None:
        where = ".".join(key for key in path if isinstance(key, str))
        go = _go_name(field, shape)
        raise self._error(
            f"json: cannot unmarshal {_json_name(value)} into Go struct field "
            f"{owner.rpartition('.')[2]}.{where} of type {go}"
        )

    def _error(self, why: str) -> Undecodable:
        return Undecodable(f"{self._refusal}{why}")


def _fits(base: str, value: Any) -> bool:
    """Whether a JSON value is of the right type for a scalar."""
    if isinstance(value, bool):
        return base == "bool"
    if isinstance(value, str):
        return base not in ("bool", "int32", "int64", "double")
    if isinstance(value, int):
        limit = _LIMITS.get("int32" if base == "IntOrString" else base)
        if limit is not None:
            return -limit <= value < limit
    return isinstance(value, int | float) and base in ("double", "Quantity")


def _scalar(base: str, value: Any) -> Any:
    """The value in the form in which it is kept; ValueError if it is none of its type."""
    match base:
        case "Quantity":
            return quantity.canonical(value if isinstance(value, str) else repr(value))
        case "bytes":
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error as error:
                raise ValueError(f"illegal base64 data: {error}") from None
        case "Time" | "MicroTime":
            return _time(value, micro=base == "MicroTime")
        case "double":
            return reread(value)
    return value


def _time(text: str, *, micro: bool) -> str:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if micro and not _MICROSECONDS.search(text):
        when = None
    if when is None or when.tzinfo is None or "T" not in text:
        layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}"')
    when = when.astimezone(UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if micro else timestamp(when)


def _is_empty(field: Field, value: Any) -> bool:
    if field.shape.startswith("*"):
        return False
    if field.shape or field.base in ("string", "bytes", "bool", "int32", "int64", "double"):
        return not value
    return False


def _go_name(field: Field, shape: str) -> str:
    base = _GO_NAMES.get(field.base)
    if base is None:
        head, _, tail = field.base.rpartition(".")
        base = f"{head.rpartition('.')[2]}.{tail}" if head else field.base
    return shape.replace("map:", "map[string]") + base


def _json_name(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return (
                f"number {value}" if isinstance(value, float) or abs(value) >= 2**31 else "number"
            )
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _text(path: tuple[str | int, ...]) -> str:
    found = ""
    for key in path:
        found = schema.joined(found, key)
    return found
