"""The rules of a schema held against an object.

As in Kubernetes: rules run where the value is not null, transition rules only where there is an
old value at the same place; what an update leaves alone may go on breaking a rule that has nothing
to do with the change; what rules may cost is bounded, each for itself and all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import problems as problem
from kapilite.cel.program import CALL_LIMIT, Budget, CostExceeded, Program
from kapilite.cel.rules import RULES, Rule, prepared
from kapilite.cel.typed import Schema, value_of
from kapilite.cel.values import CelError, Optional
from kapilite.schemas.ratcheting import is_unchanged, previous
from kapilite.schemas.schema import bracketed, old_members

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapilite.problems import Problem

OBJECT_LIMIT = 2_000_000
"""What all rules together may cost for one object: two seconds at worst, without other requests
served. Kubernetes allows five times as much."""

MESSAGE_LIMIT = 5 * 1024
_ROOT = "<nil>"
"""What Kubernetes calls the place of the whole object."""


class Plan(NamedTuple):
    """The places of a schema that have rules, or have such places below."""

    schema: Schema
    is_root: bool
    rules: tuple[Rule, ...]
    properties: dict[str, Plan]
    extra: Plan | None
    items: Plan | None


def plan(schema: Schema, *, is_root: bool) -> Plan | None:
    """The plan of a schema; None where it has no rules."""

    def below(sub: Any) -> Plan | None:
        if not isinstance(sub, dict):
            return None
        return plan(sub, is_root=bool(sub.get("x-kubernetes-embedded-resource")))

    properties = {
        name: found
        for name, sub in (schema.get("properties") or {}).items()
        if (found := below(sub))
    }
    made = Plan(
        schema=schema,
        is_root=is_root,
        rules=tuple(prepared(raw, schema) for raw in schema.get(RULES) or ()),
        properties=properties,
        extra=below(schema.get("additionalProperties")),
        items=below(schema.get("items")),
    )
    return made if made.rules or properties or made.extra or made.items else None


def problems(made: Plan, value: Any, old: Any) -> list[Problem]:
    """Every rule that the value breaks; `old` is what it replaces, None where it is new."""
    evaluation = _Evaluation()
    start = _Kept(None if old is None else _Place(made.schema, value, old), None)
    evaluation.walk(made, value, old, "", start)
    return evaluation.found


class _Place(NamedTuple):
    """A value that can be followed to what it was before."""

    schema: Schema
    value: Any
    old: Any


class _Kept(NamedTuple):
    """What tells whether an update leaves something alone."""

    here: _Place | None
    above: _Place | None
    """The nearest place above that can be followed."""

    def __bool__(self) -> bool:
        place = self.here or self.above
        return place is not None and is_unchanged(*place)

    def members(self) -> Callable[[str | int], _Kept]:
        place = self.here
        if place is None:
            return lambda _: self
        before = previous(*place)

        def member(key: str | int) -> _Kept:
            if self.above is None and key in ("apiVersion", "kind"):
                return _Kept(None, None)
            found = key in before and before[key] is not None
            sub = _schema_of(place.schema, key)
            return _Kept(_Place(sub, place.value[key], before[key]) if found else None, place)

        return member


def _schema_of(schema: Schema, key: str | int) -> Schema:
    if isinstance(key, int):
        return schema.get("items") or {}
    return (schema.get("properties") or {}).get(key) or schema.get("additionalProperties") or {}


class _Evaluation:
    """The problems found so far, and the budget that is left."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._left = OBJECT_LIMIT

    def walk(self, made: Plan, value: Any, old: Any, path: str, kept: _Kept) -> bool:
        """Hold a value and what is below it against the rules; False ends it all."""
        if value is None:
            return True
        if made.rules and not self._rules(made, value, old, path, kept):
            return False
        before = old_members(made.schema, value, old)
        below = kept.members()
        if isinstance(value, dict):
            for name, child in value.items():
                sub_plan = made.properties.get(name) or made.extra
                where = bracketed(path, made.schema, name)
                if sub_plan is not None and not self.walk(
                    sub_plan, child, before.get(name), where, below(name)
                ):
                    return False
        elif isinstance(value, list) and made.items is not None:
            for index, child in enumerate(value):
                where = bracketed(path, made.schema, index)
                if not self.walk(made.items, child, before.get(index), where, below(index)):
                    return False
        return True

    def _rules(self, made: Plan, value: Any, old: Any, path: str, kept: _Kept) -> bool:
        kind = "object" if made.is_root else made.schema.get("type", "")
        variables = {"self": value_of(made.schema, value, is_root=made.is_root)}
        before: Any = None
        if old is not None and any(rule.program.uses_old for rule in made.rules):
            before = value_of(made.schema, old, is_root=made.is_root)
        for rule in made.rules:
            if rule.program.uses_old and old is None and not rule.is_old_optional:
                continue
            variables["oldSelf"] = (
                Optional(before, present=old is not None) if rule.is_old_optional else before
            )
            try:
                holds = self._run(rule.program, variables) is True
            except CelError as error:
                why = _failed(rule, str(error))
                self.found.append(problem.invalid(path or _ROOT, kind, why))
                continue
            except CostExceeded as error:
                why = _stopped(rule, str(error))
                self.found.append(problem.invalid(path or _ROOT, kind, why))
                return False
            if not holds and (rule.program.uses_old or not kept):
                shown = problem.OMITTED if kind in ("object", "array") else value
                self.found.append(self._broken(rule, variables, shown, path))
        return True

    def _run(self, program: Program, variables: dict[str, Any]) -> Any:
        if self._left <= 0:
            raise CostExceeded("validation failed due to running out of cost budget")
        budget = Budget(CALL_LIMIT)
        try:
            return program.evaluate(variables, budget)
        finally:
            self._left -= CALL_LIMIT - max(budget.left, 0)

    def _broken(self, rule: Rule, variables: dict[str, Any], value: Any, path: str) -> Problem:
        detail = self._message(rule, variables) or rule.message or f"failed rule: {rule.shown}"
        field = ".".join(part for part in (path, rule.field_path) if part) or _ROOT
        match rule.reason:
            case "FieldValueForbidden":
                return problem.forbidden(field, detail)
            case "FieldValueRequired":
                return problem.required(field, detail)
            case "FieldValueDuplicate":
                return problem.duplicate(field, value)
        return problem.invalid(field, value, detail)

    def _message(self, rule: Rule, variables: dict[str, Any]) -> str:
        """What the message expression gives; empty where it gives nothing of use."""
        if rule.message_program is None:
            return ""
        try:
            text = self._run(rule.message_program, variables)
        except (CelError, CostExceeded):
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in text or len(text.encode()) > MESSAGE_LIMIT else text


def _failed(rule: Rule, why: str) -> str:
    if why.startswith("no such overload"):
        return (
            f"'{why}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.shown}"
        )
    return f"{why} evaluating rule: {rule.shown}"


def _stopped(rule: Rule, why: str) -> str:
    if why:
        return f"{why}, no further validation rules will be run"
    return (
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be "
        f"run due to call cost exceeds limit for rule: {rule.shown}"
    )
