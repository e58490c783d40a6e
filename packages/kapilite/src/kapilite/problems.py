"""What is wrong with an object, field by field, in the words that Kubernetes uses.

kubectl prints each cause of an `Invalid` answer on a line of its own, and people search the web
for these texts, so they are the same as a real API server's. Only of what would be endless lists,
made by hostile clients, is the end left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite.errors import ApiError
from kapilite.gotext.numbers import number_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapilite.kinds import Kind


_NAMED = 100
"""Problems of one object, and values of an enumeration, that are named."""


OMITTED = object()
"""In place of a value that a text leaves out: of an object or a list that breaks a rule."""


class Problem(NamedTuple):
    """One cause: the machine-readable reason, the text and the field it concerns."""

    reason: str
    message: str
    field: str


def invalid(field: str, value: Any, detail: str, reason: str = "FieldValueInvalid") -> Problem:
    return Problem(reason, f"{_with('Invalid value', value)}: {detail}", field)


def unfit(field: str, value: str, why: Iterable[str]) -> list[Problem]:
    """A value for each of these reasons, which a rule of `names` has given."""
    return [invalid(field, value, text) for text in why]


def wrong_type(field: str, found: str, wanted: str) -> Problem:
    """`found` is the name of the type; Kubernetes shows that and not the value."""
    detail = f'{field} in body must be of type {wanted}: "{found}"'
    return invalid(field, found, detail, "FieldValueTypeInvalid")


def required(field: str, detail: str = "") -> Problem:
    return Problem(
        "FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field
    )


def forbidden(field: str, detail: str) -> Problem:
    return Problem("FieldValueForbidden", f"Forbidden: {detail}", field)


def not_supported(field: str, value: Any, supported: Sequence[Any]) -> Problem:
    values = ", ".join(
        _shown(item if item is None or isinstance(item, str) else _shown(item))
        for item in supported[:_NAMED]
    )
    values += ", ..." if len(supported) > _NAMED else ""
    message = f"Unsupported value: {_shown(value)}: supported values: {values}"
    return Problem("FieldValueNotSupported", message, field)


def duplicate(field: str, value: Any) -> Problem:
    return Problem("FieldValueDuplicate", _with("Duplicate value", value), field)


def too_long(field: str, limit: int) -> Problem:
    message = f"Too long: may not be more than {limit} bytes"
    return Problem("FieldValueTooLong", message, field)


def too_many(field: str, count: int, limit: int) -> Problem:
    message = f"Too many: {count}: must have at most {limit} items"
    return Problem("FieldValueTooMany", message, field)


def rejected(kind: Kind, name: str, problems: Sequence[Problem]) -> ApiError:
    """The `Invalid` answer for an object with these problems."""
    named = problems[:_NAMED]
    texts = [f"{p.field}: {p.message}" if p.field else p.message for p in named]
    if len(problems) > len(named):
        texts.append(f"and {len(problems) - len(named)} more")
    what = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        "Invalid",
        f'{what} "{name}" is invalid: {summary}',
        name=name,
        group=kind.group,
        kind=kind.kind,
        causes=[p._asdict() for p in named],
    )


def rejected_options(kind: str, problems: Sequence[Problem]) -> ApiError:
    """The `Invalid` answer for the options of a request, of a kind such as PatchOptions."""
    texts = ", ".join(f"{p.field}: {p.message}" for p in problems)
    return ApiError(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: {texts}',
        group="meta.k8s.io",
        kind=kind,
        causes=[p._asdict() for p in problems],
    )


def _with(text: str, value: Any) -> str:
    return text if value is OMITTED else f"{text}: {_shown(value)}"


def _shown(value: Any) -> str:
    if value is None:
        return '"null"'
    if isinstance(value, float):
        return number_text(value)
    return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
