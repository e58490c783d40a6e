"""`metadata.managedFields`: who owns what, read and written.

An entry belongs to a manager, which is identified by its name, the operation, the subresource and,
unless it applies, the version it spoke. Entries that did not change are written as they were read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from kapilite.apply.fieldset import FieldSet, MalformedFields
from kubebasics.timestamps import timestamp

Entry = dict[str, Any]

APPLY = "Apply"
UPDATE = "Update"


class Manager(NamedTuple):
    """The identity of an entry; sorts as Kubernetes names managers."""

    name: str
    operation: str
    api_version: str
    """Empty for a manager that applies: it stays the same one in another version."""
    subresource: str


class Owned(NamedTuple):
    """What a manager owns."""

    fields: FieldSet
    api_version: str
    time: str | None
    wire: Entry | None = None
    """The entry it was read from, when that still says the same."""

    def now_owning(self, fields: FieldSet) -> Owned:
        return self if fields == self.fields else self._replace(fields=fields, wire=None)


Managed = dict[Manager, Owned]


class MalformedEntries(ValueError):  # noqa: N818 - named for what it is
    """managedFields that cannot be read."""


def written(before: Owned | None, fields: FieldSet, api_version: str, time: str) -> Owned:
    """What a manager owns after it wrote, told with as little new text as possible."""
    wire = None
    if before and before.wire and before.fields == fields and before.api_version == api_version:
        wire = {**before.wire, "time": time}
    return Owned(fields, api_version, time, wire)


def applier(name: str, subresource: str) -> Manager:
    return Manager(name or "unknown", APPLY, "", subresource)


def updater(name: str, api_version: str, subresource: str) -> Manager:
    return Manager(name or "unknown", UPDATE, api_version, subresource)


def decode(entries: Any, *, stored: bool = True) -> Managed:
    """Raises MalformedEntries. What a client sent is not `stored`, so it is written again."""
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise MalformedEntries("managedFields must be a list")
    managed: Managed = {}
    for index, entry in enumerate(entries):
        try:
            manager, owned = _decoded(entry)
            if not stored:
                owned = owned._replace(time=_utc(owned.time), wire=None)
        except MalformedFields as error:
            raise MalformedEntries(f"managedFields[{index}]: {error}") from None
        managed[manager] = owned
    return managed


def _decoded(entry: Any) -> tuple[Manager, Owned]:
    if not isinstance(entry, dict):
        raise MalformedFields("an entry must be an object")
    texts = []
    for name in ("manager", "operation", "apiVersion", "subresource", "fieldsType"):
        text = entry.get(name)
        if not isinstance(text, str | None):
            raise MalformedFields(f"{name} must be a string")
        texts.append(text or "")
    name, operation, api_version, subresource, fields_type = texts
    time = entry.get("time")
    if operation not in (APPLY, UPDATE):
        raise MalformedFields("operation must be `Apply` or `Update`")
    if not api_version:
        raise MalformedFields("apiVersion must not be empty")
    if fields_type != "FieldsV1":
        raise MalformedFields("fieldsType must be `FieldsV1`")
    if not isinstance(time, str | None):
        raise MalformedFields("time must be a string")
    owned = Owned(FieldSet.decode(entry.get("fieldsV1") or {}), api_version, time, entry)
    identity = "" if operation == APPLY else api_version
    return Manager(name, operation, identity, subresource), owned


def _utc(time: str | None) -> str | None:
    if time is None:
        return None
    try:
        return timestamp(datetime.fromisoformat(time).astimezone(UTC))
    except (ValueError, OverflowError):
        raise MalformedFields("time must be a timestamp in RFC 3339 format") from None


def encode(managed: Managed) -> list[Entry]:
    """Appliers first, then by time and name."""
    return [_encoded(manager, managed[manager]) for manager in sorted(managed, key=_order(managed))]


def _order(managed: Managed) -> Any:
    def order(manager: Manager) -> tuple[str, ...]:
        owned = managed[manager]
        time = owned.time or ""
        return manager.operation, time, manager.name, owned.api_version, manager.subresource

    return order


def _encoded(manager: Manager, owned: Owned) -> Entry:
    if owned.wire is not None:
        return owned.wire
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields.encode(),
        "subresource": manager.subresource,
    }
    return {name: value for name, value in entry.items() if value not in (None, "")}
