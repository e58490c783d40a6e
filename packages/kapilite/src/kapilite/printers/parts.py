"""Reading objects of unknown shape, and what printers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeAlias

from kapilite.printers import durations

Object = dict[str, Any]
Cell: TypeAlias = Callable[[Object, datetime], Any]

NONE = "<none>"
UNKNOWN = "<unknown>"
SHOWN = 3
"""Of a list of addresses or ports, so many are named."""


def get(value: Any, *path: str) -> Any:
    """What is at a path of keys, if anything."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text(value: Any, *path: str) -> str:
    """The text at a path; empty for anything else."""
    found = get(value, *path)
    return found if isinstance(found, str) else ""


def number(value: Any, *path: str) -> int:
    """The number at a path; 0 for anything else."""
    found = get(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def items(value: Any, *path: str) -> list[Object]:
    """The objects in the list at a path."""
    found = get(value, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def texts(value: Any, *path: str) -> list[str]:
    """The texts in the list at a path."""
    found = get(value, *path)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def mapping(value: Any, *path: str) -> Object:
    """The map at a path."""
    found = get(value, *path)
    return found if isinstance(found, dict) else {}


def of(*path: str) -> Cell:
    """A cell with the number at a path."""
    return lambda obj, _: number(obj, *path)


def size(*fields: str) -> Cell:
    """A cell with the number of members of some maps or lists."""

    def count(obj: Object, _: datetime) -> int:
        found = (get(obj, field) for field in fields)
        return sum(len(value) for value in found if isinstance(value, dict | list))

    return count


def age(obj: Object, now: datetime) -> str:
    """Time since the object was created."""
    when = get(obj, "metadata", "creationTimestamp")
    return durations.age(when, now) if isinstance(when, str) else UNKNOWN


def shortened(found: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    everything = list(found)
    if not everything:
        return NONE
    more = len(everything) - SHOWN
    shown = ",".join(everything[:SHOWN])
    return f"{shown} + {more} more..." if more > 0 else shown


def labels(found: Object) -> str:
    """Labels as a selector, sorted."""
    return ",".join(f"{key}={found[key]}" for key in sorted(found)) or NONE


def selector(found: Any) -> str:
    """A LabelSelector in the form that `kubectl get -l` takes."""
    terms = [(key, f"{key}={value}") for key, value in mapping(found, "matchLabels").items()]
    for term in items(found, "matchExpressions"):
        key, values = text(term, "key"), ",".join(sorted(texts(term, "values")))
        match text(term, "operator"):
            case "In":
                terms.append((key, f"{key} in ({values})"))
            case "NotIn":
                terms.append((key, f"{key} notin ({values})"))
            case "Exists":
                terms.append((key, key))
            case "DoesNotExist":
                terms.append((key, f"!{key}"))
    return ",".join(shown for _, shown in sorted(terms)) or NONE
