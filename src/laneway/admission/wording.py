"""How verdicts are worded: the refusal as a `Status` says it, and warnings in bounds.

Where every refusal names a field, it is the object as it is written that is wrong (Invalid), and
kubectl shows the causes, each with its field. Else it is what is around the object, or who asks
(Forbidden), and kubectl shows the message, which therefore has a line for each refusal.

Some kinds of others are spoken of as their own controllers do, in Kubernetes' form
(`<Kind.group> "<name>" is invalid: <path>: …`), so that whatever reads that can read this.

Clients are given each warning as a header of HTTP, so it is one line; what is longer than
Kubernetes passes on is cut here, where it can be said that it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import NamedTuple

from laneway.core.refusals import Refusal

WARNING_LIMIT = 256
WARNINGS_LIMIT = 4096
"""Characters of one warning, and of all together."""
CAUSES_LIMIT = 32
"""The most refusals of one object that are listed; an object can cause thousands."""


class Cause(NamedTuple):
    """One reason against a write."""

    reason: str
    message: str
    field: str = ""


class About(NamedTuple):
    """Which object is refused."""

    name: str
    group: str
    kind: str


class Denial(NamedTuple):
    """Why a write is refused."""

    code: HTTPStatus
    reason: str
    message: str
    causes: Sequence[Cause] = ()
    about: About | None = None
    """Where it is worded in Kubernetes' own form."""


def denial(refusals: Sequence[Refusal], about: About | None = None) -> Denial:
    """One answer for all that speaks against a write; with `about` in Kubernetes' own form."""
    causes = [
        Cause(getattr(one, "cause", one.reason), one.words, getattr(one, "field", ""))
        for one in refusals[:CAUSES_LIMIT]
    ]
    left = len(refusals) - len(causes)
    about_object = all(cause.field for cause in causes)
    return Denial(
        HTTPStatus.UNPROCESSABLE_ENTITY if about_object else HTTPStatus.FORBIDDEN,
        "Invalid" if about_object else "Forbidden",
        _lines(causes, left) if about is None else _invalid(about, causes, left),
        causes,
        about,
    )


def _lines(causes: Iterable[Cause], left: int) -> str:
    words = [cause.message for cause in causes]
    return "\n".join([*words, f"{left} more reasons are left out."] if left else words)


def _invalid(about: About, causes: Iterable[Cause], left: int) -> str:
    words = [f"{cause.field}: {cause.message}" for cause in causes]
    if left:
        words.append(f"and {left} more errors")
    reported = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    return f'{about.kind}.{about.group} "{about.name}" is invalid: {reported}'


def within_limits(warnings: Iterable[str]) -> list[str]:
    """The warnings as they can be sent: each once, in order."""
    lines = [line for text in dict.fromkeys(warnings) if (line := _one_line(text))]
    kept: list[str] = []
    left = WARNINGS_LIMIT
    for number, line in enumerate(lines):
        rest = f"{len(lines) - number} more warnings are left out."
        is_last = number == len(lines) - 1
        if len(line) > left - (0 if is_last else len(rest)):
            kept.append(rest)
            break
        kept.append(line)
        left -= len(line)
    return kept


def _one_line(text: str) -> str:
    """Printable, without line breaks, and no longer than is passed on."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line) <= WARNING_LIMIT:
        return line
    cut = line[: WARNING_LIMIT - 1]
    # Names may have blanks in them: between two of a list is the place to stop, or after a clause.
    ends = max(cut.rfind(mark) for mark in (", ", "; ", ". ", ": "))
    cut = cut[:ends] if ends > WARNING_LIMIT // 2 else cut.rpartition(" ")[0] or cut
    return f"{cut}…"
