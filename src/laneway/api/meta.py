"""What every object carries: metadata, owners, conditions.

Only the fields that Laneway reads or writes are declared. `managedFields` in particular is left
out, so that the largest part of a cached object is never built.

Attributes are snake case, JSON is camel case. Sequences and maps are annotated as read-only, so
that the type checker refuses a change to an object that a cache shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ConditionStatus = Literal["True", "False", "Unknown"]


class OwnerReference(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The object whose deletion takes this one with it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Standard object metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: Sequence[str] = []
    owner_references: Sequence[OwnerReference] = []


class Condition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """One aspect of an object's state, with its reason."""

    type: Annotated[str, Meta(description="The aspect, for example Ready.")]
    status: Annotated[ConditionStatus, Meta(description="Whether it holds.")]
    reason: Annotated[str, Meta(description="Why, in one CamelCase word.")] = ""
    message: Annotated[str, Meta(description="Why, and what to do.")] = ""
    observed_generation: Annotated[
        int, Meta(description="Generation of the object that this condition is about.")
    ] = 0
    last_transition_time: Annotated[
        str,
        Meta(
            description="When the status last changed.",
            extra_json_schema={"format": "date-time"},
        ),
    ] = ""


class Status(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """What every status holds in addition to the fields of its kind."""

    observed_generation: Annotated[
        int, Meta(description="Generation of the object that this status is about.")
    ] = 0
    conditions: Annotated[
        Sequence[Condition],
        Meta(
            description="State by aspect; Ready sums it up.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = []


def find_condition(conditions: Sequence[Condition], condition_type: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((one for one in conditions if one.type == condition_type), None)


def set_condition(conditions: Sequence[Condition], new: Condition, now: str) -> list[Condition]:
    """Put a condition in the place of the one of its type, or at the end.

    `last_transition_time` is `now` only when the status changed, else what it was: so an
    unchanged state gives an equal list and nothing is written.
    """
    old = find_condition(conditions, new.type)
    same = old is not None and old.status == new.status and old.last_transition_time != ""
    placed = msgspec.structs.replace(
        new, last_transition_time=old.last_transition_time if old is not None and same else now
    )
    if old is None:
        return [*conditions, placed]
    return [placed if one.type == new.type else one for one in conditions]
