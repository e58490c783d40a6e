"""The status of a CustomResourceDefinition: which of its names it got, and whether it is served.

A definition whose names are taken is stored all the same and says so in its conditions, as in
Kubernetes; a definition that was established stays so under the names that it got. Which versions
objects may be stored in is remembered until a client says that none is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import metadata
from kapilite import problems as problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapilite.kinds import Kind
    from kapilite.problems import Problem

Object = dict[str, Any]


def status(crd: Object, old: Object | None, kinds: Iterable[Kind]) -> Object:
    """The status of a definition next to the kinds that are served."""
    before = _status(crd) if old is not None else {}
    spec = crd["spec"]
    resources, taken_kinds = _taken(crd, kinds)
    accepted, conflict = _names(
        spec["names"], before.get("acceptedNames") or {}, resources, taken_kinds
    )
    was_established = is_established({"status": before})
    conditions = [_accepted(*conflict) if conflict else _NO_CONFLICTS]
    conditions.append(_ESTABLISHED if was_established or not conflict else _NOT_ACCEPTED)
    return {
        "acceptedNames": accepted,
        "storedVersions": _with_storage(spec["versions"], list(before.get("storedVersions") or [])),
        "conditions": _stamped(conditions, before.get("conditions") or []),
    }


def is_established(crd: Object) -> bool:
    """Whether the definition is served."""
    conditions = _status(crd).get("conditions") or []
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def problems(crd: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with the versions that objects are said to be stored in."""
    field = "status.storedVersions"
    versions = crd["spec"].get("versions") or []
    listed = _status(crd).get("storedVersions") if old is not None else []
    stored = _with_storage(versions, list(listed) if isinstance(listed, list) else [])
    if not stored:
        yield problem.invalid(field, stored, "must have at least one stored version")
        return
    left = {name: index for index, name in enumerate(stored)}
    for version in versions:
        if left.pop(version["name"], None) is None and version["storage"]:
            why = f"must have the storage version {version['name']}"
            yield problem.invalid(field, stored, why)
    for name, index in left.items():
        why = (
            f"missing from spec.versions; {name} was previously a storage version, and must "
            "remain in spec.versions until a storage migration ensures no data remains persisted "
            f"in {name} and removes {name} from status.storedVersions"
        )
        yield problem.invalid(f"{field}[{index}]", name, why)


def _status(crd: Object) -> Object:
    found = crd.get("status")
    return found if isinstance(found, dict) else {}


def _with_storage(versions: list[Object], stored: list[str]) -> list[str]:
    """The versions that objects may be stored in: those of before, and today's."""
    storage = next((version["name"] for version in versions if version["storage"]), None)
    return stored if storage is None or storage in stored else [*stored, storage]


def _taken(crd: Object, kinds: Iterable[Kind]) -> tuple[set[str], set[str]]:
    """The names of resources and of kinds that others in the group have."""
    mine = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
    resources: set[str] = set()
    taken_kinds: set[str] = set()
    for kind in kinds:
        if kind.group == crd["spec"]["group"] and kind.resource != mine:
            resources |= {kind.plural, kind.singular, *kind.short_names}
            taken_kinds |= {kind.kind, kind.list_kind}
    return resources, taken_kinds


def _names(
    wanted: Object, had: Object, resources: set[str], kinds: set[str]
) -> tuple[Object, tuple[str, str] | None]:
    """The names it gets, and the last conflict as reason and message."""
    got = {name: value for name, value in had.items() if name != "categories"}
    conflict: tuple[str, str] | None = None
    for field, taken in (
        ("plural", resources),
        ("singular", resources),
        ("shortNames", resources),
        ("kind", kinds),
        ("listKind", kinds),
    ):
        value = wanted.get(field)
        each = value or [] if field == "shortNames" else [value]
        mine = had.get(field) or []
        clashes = [name for name in each if name in taken and name != mine and name not in mine]
        if clashes:
            text = ", ".join(f'"{name}" is already in use' for name in clashes)
            text = f"[{text}]" if len(clashes) > 1 else text
            conflict = (f"{field[0].upper()}{field[1:]}Conflict", text)
        elif value is not None:
            got[field] = value
        else:
            got.pop(field, None)
    if wanted.get("categories"):
        got["categories"] = wanted["categories"]
    return got, conflict


def _condition(kind: str, state: str, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": state, "reason": reason, "message": message}


_NO_CONFLICTS = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
_ESTABLISHED = _condition(
    "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
)
_NOT_ACCEPTED = _condition("Established", "False", "NotAccepted", "not all names are accepted")


def _accepted(reason: str, message: str) -> dict[str, str]:
    return _condition("NamesAccepted", "False", reason, message)


def _stamped(conditions: list[dict[str, str]], before: list[Any]) -> list[dict[str, Any]]:
    """The conditions with the times of their last change, among those that others have set."""
    found: list[dict[str, Any]] = [dict(c) for c in before if isinstance(c, dict)]
    for condition in conditions:
        old = next((c for c in found if c.get("type") == condition["type"]), None)
        if old is None:
            found.append(condition | {"lastTransitionTime": metadata.now()})
            continue
        same = old.get("status") == condition["status"]
        since = old.get("lastTransitionTime") if same else None
        old.update(condition, lastTransitionTime=since or metadata.now())
    return found
