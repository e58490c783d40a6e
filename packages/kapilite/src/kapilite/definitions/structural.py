"""Whether the schema of a CustomResourceDefinition is structural, and can be honoured in full.

A schema is refused, with the place and the reason, when Kubernetes would refuse it and when this
server could not evaluate it (a rule with a function that it does not know): a rule that is
silently ignored is worse than a definition that does not load. The schema has been decoded, so
that every keyword is known and has the type that it is to have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.definitions import defaults, keywords, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Schema = dict[str, Any]

_NOT_AT_A_ROOT_WITH_STATUS = (
    "nullable",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)
"""What would be lost when the status is judged by its own part of the schema."""
_AT_A_ROOT_WITH_STATUS = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength "
    "MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties "
    "ExternalDocs Example XPreserveUnknownFields XValidations]"
)
"""As Kubernetes names the others."""
_SWITCHES = ("nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string")


def problems(
    schema: Schema, path: str, *, has_status: bool = False, is_kept: bool = False
) -> Iterator[Problem]:
    """Everything that keeps this schema from being served; `is_kept`: it is served already."""
    found = list(_root(schema, path, has_status=has_status))
    unread = shape.unread(schema)
    is_sound = not unread
    if is_sound:
        wrong = shape.problems(schema, path) or list(defaults.problems(schema, path))
        found += wrong
        is_sound = not wrong
    found += keywords.problems(schema, path, with_rules=is_sound, is_kept=is_kept)
    if unread and not found:
        found.append(problem.invalid(path, "", f"OpenAPIV3Schema '{unread}' is not supported"))
    yield from found


def _root(schema: Schema, path: str, *, has_status: bool) -> Iterator[Problem]:
    if has_status:
        yield from _with_status(schema, path)
    if schema.get("nullable"):
        yield problem.forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _with_status(schema: Schema, path: str) -> Iterator[Problem]:
    early = any(schema.get(name) for name in ("id", "$schema")) or "$ref" in schema
    kind = schema.get("type")
    if not early and kind and kind != "object":
        why = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        yield problem.invalid(f"{path}.type", kind, why)
    elif early or any(_is_set(schema, name) for name in _NOT_AT_A_ROOT_WITH_STATUS):
        why = (
            f"only {_AT_A_ROOT_WITH_STATUS} fields are allowed at the root of the schema if the "
            "status subresource is enabled"
        )
        yield problem.invalid(path, "", why)


def _is_set(schema: Schema, name: str) -> bool:
    """Whether a keyword is there; one that switches something on, when it does."""
    return bool(schema.get(name)) if name in _SWITCHES else schema.get(name) is not None
