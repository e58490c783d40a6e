"""Resources within an object: read as Kubernetes reads them, and held against its rules.

Of a part with `x-kubernetes-embedded-resource` the metadata is decoded as that of every object is:
what it does not have is removed and reported, what has the wrong type cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.builtin.decoding import read_metadata
from kapilite.errors import Undecodable
from kapilite.schemas.invariants import invariants
from kapilite.schemas.schema import EMBEDDED, Schema, bracketed, children, fit
from kapilite.schemas.validation import places

if TYPE_CHECKING:
    from kapilite.problems import Problem


class Unreadable(Undecodable):
    """A field of a resource within an object is nothing that it can be."""

    def __init__(self, field: str, value: Any, why: str) -> None:
        self.problem = problem.invalid(field, value, why)
        super().__init__(f"{field}: {self.problem.message}")


def complete(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Make of a custom resource what is stored of it; the paths of unknown fields.

    Raises what `read` and `schema.fit` raise.
    """
    return fit(schema, obj) + read(schema, obj)


def read(schema: Schema, value: Any) -> list[str]:
    """Decode the metadata of all embedded resources in place; the paths of unknown fields.

    Raises Unreadable where it is nothing that metadata can be.
    """
    unknown: list[str] = []
    _read(schema, value, "", places(schema), unknown)
    return unknown


def wrong(schema: Schema, value: Any) -> list[Problem]:
    """What is wrong with embedded resources that have been read."""
    return invariants(schema, value, value, places(schema))


def _read(
    schema: Schema, value: Any, path: str, marked: frozenset[int], unknown: list[str]
) -> None:
    if id(schema) not in marked:
        return
    if isinstance(value, dict) and schema.get(EMBEDDED):
        at = f"{path}." if path else ""
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                raise Unreadable(f"{at}{name}", value[name], "must be a string")
        if "metadata" in value:
            try:
                value["metadata"], found = read_metadata(value["metadata"], f"{at}metadata")
            except Undecodable as error:
                raise Unreadable(f"{at}metadata", value["metadata"], error.message) from None
            unknown.extend(found)
    for key, child, sub in children(schema, value):
        if isinstance(child, dict | list):
            _read(sub, child, bracketed(path, schema, key), marked, unknown)
