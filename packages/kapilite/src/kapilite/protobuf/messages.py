"""Messages as JSON objects, by the table of Kubernetes' types.

A body is `k8s`, a zero byte and an envelope that names the kind and holds the object. Go writes
empty values where JSON has nothing, so empty fields are left out as their types say. A field
that the table does not know is refused unless it is empty, rather than lost: without its name it
cannot even be warned of.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kapilite.builtin import types
from kapilite.errors import ApiError
from kapilite.protobuf import scalars, wire
from kapilite.protobuf.wire import BYTES, FIXED64, VARINT, MalformedError, Part

if TYPE_CHECKING:
    from kapilite.builtin.types import Field

Object = dict[str, Any]

MAGIC = b"k8s\0"
DEPTH_LIMIT = 200
_OPTIONS = "DeleteOptions"
_SCHEMA_PROPS = "apiextensions.v1.JSONSchemaProps"


def decode(body: bytes) -> Object:
    """The object in a protobuf body; ApiError 400 says what is wrong with it."""
    try:
        return _envelope(body)
    except MalformedError as error:
        text = f"the body of the request is not a protobuf object of a known kind: {error}"
        raise ApiError(400, "BadRequest", text) from error


def _envelope(body: bytes) -> Object:
    if not body.startswith(MAGIC):
        raise MalformedError("it does not begin with the prefix k8s")
    found = scalars.numbers(body[len(MAGIC) :])
    identity, raw, encoding = (found.get(number, b"") for number in (1, 2, 3))
    if not isinstance(identity, bytes) or not isinstance(raw, bytes):
        raise MalformedError("the envelope has numbers where texts should be")
    if encoding:
        raise MalformedError(f"unknown content encoding {encoding!r}")
    names = [scalars.numbers(identity).get(number, b"") for number in (1, 2)]
    api_version, kind = (scalars.text(n) if isinstance(n, bytes) else "" for n in names)
    obj: Object = {"apiVersion": api_version, "kind": kind}
    return obj | _message(_struct_of(api_version, kind), raw, 0)


def _struct_of(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    name = f"{group.partition('.')[0] or 'core'}.{version}.{kind}"
    if types.exists(name):
        return name
    if kind == _OPTIONS:
        # In the group version of what is to be deleted.
        return f"meta.v1.{kind}"
    raise MalformedError(
        f"{api_version or 'no version'} {kind or 'no kind'} is not known in this form"
    )


@cache
def _by_number(name: str) -> dict[int, Field]:
    return {field.number: field for field in types.struct(name).fields.values()}


def _message(name: str, body: bytes, depth: int) -> Object:
    if depth > DEPTH_LIMIT:
        raise MalformedError(f"nested more than {DEPTH_LIMIT} levels deep")
    known = _by_number(name)
    found: Object = {}
    for part in wire.fields(body):
        field = known.get(part.number)
        if field is None:
            _require_empty(name, part)
            continue
        _take(found, field, part, depth)
    return {key: value for key, value in found.items() if not _is_left_out(name, key, value)}


def _require_empty(name: str, part: Part) -> None:
    """Older clients write fields that are long gone, but write nothing into them."""
    if part.value:
        release = types.release()
        text = f"{name} has a field {part.number} that Kubernetes {release} does not know"
        raise MalformedError(f"{text}; send JSON instead")


def _take(found: Object, field: Field, part: Part, depth: int) -> None:
    shape = field.shape.removeprefix("*")
    if field.inline:
        if not isinstance(part.value, bytes):
            raise MalformedError(f"{field.base} is written as a number")
        found |= _message(field.base, part.value, depth + 1)
    elif shape.startswith("map:"):
        key, entry = _entry(field, shape.removeprefix("map:"), part.value, depth)
        found.setdefault(field.name, {})[key] = entry
    elif shape == "[]":
        items = found.setdefault(field.name, [])
        if isinstance(part.value, bytes) and field.base in scalars.NUMBERS:
            items.extend(map(scalars.NUMBERS[field.base], wire.packed(part.value)))
        else:
            items.append(_value(field.base, part, depth))
    else:
        found[field.name] = _value(field.base, part, depth)


def _entry(field: Field, shape: str, body: int | bytes, depth: int) -> tuple[str, Any]:
    """One pair of a map: a message of key and value."""
    if not isinstance(body, bytes):
        raise MalformedError(f"{field.name} is written as a number")
    key, item = "", Part(2, VARINT, 0) if field.base in scalars.NUMBERS else Part(2, BYTES, b"")
    for part in wire.fields(body):
        if part.number == 1 and isinstance(part.value, bytes):
            key = scalars.text(part.value)
        elif part.number == 2:
            item = part
        else:
            raise MalformedError(f"{field.name} has an entry that is no key and value")
    if shape != "[]":
        return key, _value(field.base, item, depth)
    # A list within a map is a message of its own, with the elements as field 1.
    elements = list(wire.fields(item.value)) if isinstance(item.value, bytes) else []
    if any(element.number != 1 for element in elements):
        raise MalformedError(f"{field.name} has a list with unknown fields")
    return key, [_value(field.base, element, depth) for element in elements]


def _value(base: str, part: Part, depth: int) -> Any:
    value = part.value
    if isinstance(value, int):
        if base in scalars.NUMBERS:
            return scalars.NUMBERS[base](value)
    elif part.kind == FIXED64:
        if base == "double":
            return wire.double(value)
    elif part.kind == BYTES:
        if base in scalars.MESSAGES:
            return scalars.MESSAGES[base](value)
        if base.startswith(f"{_SCHEMA_PROPS.rpartition('.')[2]}Or"):
            return _schema_or(base, value, depth + 1)
        if types.exists(base):
            return _message(base, value, depth + 1)
    raise MalformedError(f"a value of type {base} is written as something else")


def _schema_or(base: str, body: bytes, depth: int) -> Any:
    """A schema, or in its place a list of schemas, a boolean or a list of texts."""
    parts = list(wire.fields(body))
    values = {part.number: part.value for part in parts}
    if base == "JSONSchemaPropsOrBool":
        schema = values.get(2)
        if isinstance(schema, bytes):
            return _message(_SCHEMA_PROPS, schema, depth)
        return bool(values.get(1, 0))
    many = [part.value for part in parts if part.number == 2 and isinstance(part.value, bytes)]
    schema = values.get(1)
    if base == "JSONSchemaPropsOrStringArray":
        if many:
            return [scalars.text(value) for value in many]
    elif many:
        return [_message(_SCHEMA_PROPS, value, depth) for value in many]
    return _message(_SCHEMA_PROPS, schema, depth) if isinstance(schema, bytes) else None


def _is_left_out(name: str, key: str, value: Any) -> bool:
    if value is None:
        return True
    field = types.flat(name).get(key)
    if field is None or field.shape.startswith("*") or not field.omitempty:
        return False
    # An empty struct stays; an empty map does not.
    return not value and (field.shape != "" or not isinstance(value, dict))
