"""One rule of `x-kubernetes-validations`: what is wrong with it, and made ready to run.

A rule is refused when its definition is created if it does not compile against its schema, so
that what is served can also be evaluated. The texts are Kubernetes' own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import problems as problem
from kapilite.cel.checker import checked
from kapilite.cel.costs import estimate
from kapilite.cel.extents import times_in_request
from kapilite.cel.program import Program, program
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, STRING, Type, optional_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.cel.extents import Extent
    from kapilite.cel.typed import Schema
    from kapilite.problems import Problem

RULES = "x-kubernetes-validations"
REASONS = (
    "FieldValueInvalid",
    "FieldValueForbidden",
    "FieldValueRequired",
    "FieldValueDuplicate",
)
_LINE_BREAK = re.compile(r"[\n\r]")
_TEXTS = ("rule", "message", "messageExpression", "reason", "fieldPath")


class Rule(NamedTuple):
    """A rule made ready."""

    program: Program
    text: str
    message: str
    """Empty: the rule itself is shown."""
    message_program: Program | None
    reason: str
    field_path: str
    """Where the problem is said to be, below the place of the rule."""
    is_old_optional: bool

    @property
    def shown(self) -> str:
        return self.message or self.text.strip()


def prepared(raw: dict[str, Any], schema: Schema) -> Rule:
    """A rule that `mistakes` let pass."""
    expression = raw.get("messageExpression")
    path = raw.get("fieldPath")
    return Rule(
        program=program(raw["rule"]),
        text=raw["rule"],
        message=(raw.get("message") or "").strip(),
        message_program=program(expression) if expression else None,
        reason=raw.get("reason") or "FieldValueInvalid",
        field_path=_normal_path(path, schema) if path else "",
        is_old_optional=bool(raw.get("optionalOldSelf")),
    )


class Scope(NamedTuple):
    """What is known of the values that a rule is about."""

    kind: Type
    extent: Extent
    times: int | None
    """How many of them there can be in an object; None where the schema sets no limit."""
    lost_at: str
    """The place from which on an old value cannot be found again."""


class Cost(NamedTuple):
    """What a rule or its message may cost at most."""

    field: str
    estimate: int


class Judged(NamedTuple):
    problems: list[Problem]
    costs: list[Cost]


def judged(raw: dict[str, Any], path: str, scope: Scope) -> Judged:
    """What keeps a rule that is well-formed from being evaluated, and its costs."""
    found = Judged([], [])
    old = optional_of(scope.kind) if raw.get("optionalOldSelf") else scope.kind
    expressions = _Expressions({"self": scope.kind, "oldSelf": old}, scope.extent, found)
    count = times_in_request(scope.extent) if scope.times is None else scope.times
    if not expressions.add(f"{path}.rule", raw["rule"], BOOL, count):
        return found
    if raw.get("messageExpression"):
        expressions.add(f"{path}.messageExpression", raw["messageExpression"], STRING, 1)
    uses_old = program(raw["rule"]).uses_old
    if uses_old and scope.lost_at and not raw.get("optionalOldSelf"):
        why = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{scope.lost_at}"
        )
        found.problems.append(problem.invalid(f"{path}.rule", raw["rule"], why))
    if raw.get("optionalOldSelf") is not None and not uses_old:
        why = "may not be set if oldSelf is not used in rule"
        given = raw["optionalOldSelf"]
        found.problems.append(problem.invalid(f"{path}.optionalOldSelf", given, why))
    return found


def malformed(schema: Schema | None, raw: dict[str, Any], path: str) -> Iterator[Problem]:
    """What is wrong with a rule whatever it computes; without a schema no path is looked up."""
    texts = {name: raw.get(name) or "" for name in _TEXTS}
    yield from _rule_and_message(texts, path)
    if texts["messageExpression"] and not texts["messageExpression"].strip():
        why = "messageExpression must be non-empty if specified"
        yield problem.required(f"{path}.messageExpression", why)
    if "reason" in raw and texts["reason"] not in REASONS:
        yield problem.not_supported(f"{path}.reason", texts["reason"], REASONS)
    place = texts["fieldPath"]
    if not place:
        return
    if not place.strip():
        yield problem.invalid(f"{path}.fieldPath", place, "must be non-empty if specified")
    if _LINE_BREAK.search(place):
        yield problem.invalid(f"{path}.fieldPath", place, "must not contain line breaks")
    if schema is None:
        return
    try:
        _normal_path(place, schema)
    except ValueError as error:
        yield problem.invalid(f"{path}.fieldPath", place, f"must be a valid path: {error}")


def _rule_and_message(texts: dict[str, str], path: str) -> Iterator[Problem]:
    rule, message = texts["rule"].strip(), texts["message"].strip()
    if not rule:
        yield problem.required(f"{path}.rule", "rule is not specified")
    elif texts["message"] and not message:
        yield problem.invalid(f"{path}.message", texts["message"], "must be non-empty if specified")
    elif _LINE_BREAK.search(message):
        yield problem.invalid(f"{path}.message", texts["message"], "must not contain line breaks")
    elif _LINE_BREAK.search(rule) and not message:
        why = "message must be specified if rule contains line breaks"
        yield problem.required(f"{path}.message", why)


class _Expressions(NamedTuple):
    """Checks the expressions of one rule."""

    variables: dict[str, Type]
    extent: Extent
    found: Judged

    def add(self, field: str, text: str, wanted: Type, count: int) -> bool:
        """Whether an expression compiles; its cost is that of so many evaluations."""
        try:
            tree = program(text).tree
            known = checked(text, tree, self.variables)
        except CelSyntaxError as error:
            why = f"compilation failed: {error}"
            self.found.problems.append(problem.invalid(field, text, why))
            return False
        if known.kind != wanted:
            what = "messageExpression" if wanted == STRING else "cel expression"
            why = f"{what} must evaluate to a {wanted}"
            self.found.problems.append(problem.invalid(field, text, why))
            return False
        self.found.costs.append(Cost(field, estimate(tree, known, self.extent) * count))
        return True


_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _normal_path(path: str, schema: Schema) -> str:
    """`.spec.x['a.b']` as error messages write paths; ValueError where the schema has no such."""
    at, found = 0, ""
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ValueError(f"expected [ or . but got: {path[at:]}")
        name = match[1] or re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[2])
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        if properties is not None:
            if name not in properties:
                raise ValueError("does not refer to a valid field")
            schema = properties[name]
            found += f".{name}"
        elif isinstance(extra, dict):
            schema = extra
            found += f"[{name}]"
        else:
            raise ValueError("does not refer to a valid field")
        at = match.end()
    return found.removeprefix(".")
