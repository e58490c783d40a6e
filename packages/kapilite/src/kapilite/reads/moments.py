"""Which moment a list or a watch is to show: resourceVersion, its match, limit and continue.

What Kubernetes accepts of these, and what it means, is a table of its own: `resourceVersion=0` and
none are any moment and the latest, another one is at least that moment, and exactly that one with
`Exact` or, as it always was, with a limit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from kapilite.errors import ApiError
from kapilite.problems import Problem, forbidden, rejected_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXACT = "Exact"
NOT_OLDER = "NotOlderThan"
_MATCH = "resourceVersionMatch"


class Span(msgspec.Struct, frozen=True):
    """The part of a list to show, and the moment to show it at."""

    limit: int
    token: str
    at: int | None
    """Exactly this resourceVersion; None is the latest."""


def span(query: Mapping[str, str], latest: int) -> Span:
    """What a list requests. Raises ApiError for what cannot be shown."""
    check(query, watch=False)
    limit = max(0, number(query, "limit"))
    token = query.get("continue", "")
    text = query.get("resourceVersion", "")
    if token:
        if text not in ("", "0"):
            why = "specifying resource version is not allowed when using continue"
            raise ApiError(400, "BadRequest", why)
        return Span(limit, token, None)
    wanted = version(query)
    if wanted > latest:
        raise too_large(wanted, latest)
    if text == "0":
        # Kubernetes answers it from memory, and all of it.
        return Span(0, "", None)
    match = query.get(_MATCH, "")
    exact = bool(wanted) and (match == EXACT or (limit > 0 and not match))
    return Span(limit, "", wanted if exact else None)


def require_past(query: Mapping[str, str], latest: int) -> None:
    """Raise a Timeout for an object as of a moment that is still to come."""
    if (wanted := version(query)) > latest:
        raise too_large(wanted, latest)


def version(query: Mapping[str, str]) -> int:
    """The resourceVersion that was requested; 0 for none."""
    text = query.get("resourceVersion") or "0"
    if not (text.isascii() and text.isdigit()):
        raise ApiError(400, "BadRequest", _bad_version(text, "invalid syntax"))
    if len(text) > 20 or int(text) >= 2**64:
        raise ApiError(400, "BadRequest", _bad_version(text, "value out of range"))
    return int(text)


def _bad_version(text: str, why: str) -> str:
    shown = json.dumps(text)
    parsing = f"strconv.ParseUint: parsing {shown}: {why}"
    return f"invalid resource version: resourceVersion: Invalid value: {shown}: {parsing}"


def number(query: Mapping[str, str], name: str) -> int:
    """A whole number of the query; 0 for none."""
    text = query.get(name) or "0"
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        why = f"strconv.ParseInt: parsing {json.dumps(text)}: invalid syntax"
    elif len(digits) > 18:
        why = f"strconv.ParseInt: parsing {json.dumps(text)}: value out of range"
    else:
        return int(text)
    raise ApiError(400, "BadRequest", why)


def flag(query: Mapping[str, str], name: str) -> bool:
    """As Kubernetes reads it: whatever is neither absent, `false` nor `0` is true."""
    return query.get(name, "false").lower() not in ("false", "0")


def initial_events(query: Mapping[str, str]) -> bool | None:
    """Whether a watch is to begin with what exists; None leaves it to the resourceVersion."""
    return flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None


def check(query: Mapping[str, str], *, watch: bool) -> None:
    """Raise Invalid for what does not go together."""
    problems = list(_of_watch(query) if watch else _of_list(query))
    if problems:
        raise rejected_options("ListOptions", problems)


def too_large(wanted: int, latest: int) -> ApiError:
    """It is still to come: the client may try again."""
    text = f"Timeout: Too large resource version: {wanted}, current: {latest}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(504, "Timeout", text, causes=[cause], retryAfterSeconds=1)


def _of_list(query: Mapping[str, str]) -> Iterator[Problem]:
    if match := query.get(_MATCH, ""):
        if not query.get("resourceVersion"):
            yield forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided")
        yield from _with_continue(query)
        if match not in (EXACT, NOT_OLDER):
            yield _unsupported(match, f'"{EXACT}", "{NOT_OLDER}", ""')
        if match == EXACT and query.get("resourceVersion") == "0":
            yield forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"')
    if initial_events(query) is not None:
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _of_watch(query: Mapping[str, str]) -> Iterator[Problem]:
    match = query.get(_MATCH, "")
    given = initial_events(query) is not None
    if given and match != NOT_OLDER:
        yield forbidden(_MATCH, f"sendInitialEvents requires setting {_MATCH} to {NOT_OLDER}")
    if match:
        if not given:
            why = f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"
            yield forbidden(_MATCH, why)
        if match != NOT_OLDER:
            yield _unsupported(match, f'"{NOT_OLDER}"')
        yield from _with_continue(query)


def _with_continue(query: Mapping[str, str]) -> Iterator[Problem]:
    if query.get("continue"):
        yield forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided")


def _unsupported(match: str, supported: str) -> Problem:
    message = f"Unsupported value: {json.dumps(match)}: supported values: {supported}"
    return Problem("FieldValueNotSupported", message, _MATCH)
