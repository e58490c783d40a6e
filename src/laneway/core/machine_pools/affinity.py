"""The nodes on which the machines of a pool may be, by the affinity of their VMs.

`vmAffinity` is an Affinity of Kubernetes as JSON, or the same in base64. Only its required rules
about nodes count; what is preferred keeps no machine away, and rules about other pods are not
judged.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

import msgspec

MOST = 1_000
"""So many rules and values are followed: each is compared with each node."""
_LONGEST = 65_536


class AffinityError(ValueError):
    """A text is no affinity; its words say why."""


class Rule(msgspec.Struct, frozen=True):
    """A rule about a label, or about a field of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True, rename="camel"):
    """Rules that all hold."""

    match_expressions: tuple[Rule, ...] = ()
    match_fields: tuple[Rule, ...] = ()


class Terms(msgspec.Struct, frozen=True, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """Rules about nodes."""

    required_during_scheduling_ignored_during_execution: Terms | None = None


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod says of where it may be."""

    node_affinity: NodeAffinity | None = None


_decode = msgspec.json.Decoder(Affinity | None).decode


def read(text: str) -> tuple[Term, ...] | None:
    """The terms of which one must hold; None: any node will do. Raises AffinityError."""
    if not text.strip():
        return None
    if len(text) > _LONGEST:
        raise AffinityError(f"vmAffinity is longer than {_LONGEST} characters")
    try:
        found = _decode(_plain(text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise AffinityError(f"vmAffinity is not an affinity as JSON: {error}") from None
    terms = required(found)
    if terms is not None and size(terms) > MOST:
        raise AffinityError(f"vmAffinity has more than {MOST} rules and values about nodes")
    return terms


def size(terms: Iterable[Term]) -> int:
    """How many rules and values there are."""
    return sum(
        1 + len(rule.values)
        for term in terms
        for rule in (*term.match_expressions, *term.match_fields)
    )


def required(affinity: Affinity | None) -> tuple[Term, ...] | None:
    """The same of an affinity that is read already."""
    about_nodes = affinity.node_affinity if affinity is not None else None
    if about_nodes is None:
        return None
    terms = about_nodes.required_during_scheduling_ignored_during_execution
    return None if terms is None else terms.node_selector_terms


def _plain(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()


def nodes(terms: Iterable[Term], labels: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    """The nodes that satisfy one of the terms; `labels` by node."""
    wanted = [term for term in terms if term.match_expressions or term.match_fields]
    return frozenset(
        name for name, own in labels.items() if any(_holds(term, name, own) for term in wanted)
    )


def _holds(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    fields = {"metadata.name": name}
    return all(_matches(rule, labels) for rule in term.match_expressions) and all(
        _matches(rule, fields) for rule in term.match_fields
    )


def _matches(rule: Rule, there: Mapping[str, str]) -> bool:
    value = there.get(rule.key)
    match rule.operator:
        case "In":
            return value in rule.values
        case "NotIn":
            return value not in rule.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compared(rule, value)
        case _:
            return False


def _compared(rule: Rule, value: str | None) -> bool:
    try:
        number, limit = int(value or ""), int(rule.values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if rule.operator == "Gt" else number < limit
