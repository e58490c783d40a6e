"""The managedFields of a write: `updated` for create, update and patch, `applied` for apply.

A write that is no apply takes what it changes away from everybody else. An apply shares fields on
whose value it agrees, is refused where it does not unless forced, and removes what its manager
applied before and now leaves out, unless another manager owns it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kapilite.apply import entries, items, lastapplied, trees, types
from kapilite.apply.conflicts import Conflicts
from kapilite.apply.entries import UPDATE, Entry, Managed, Manager, Owned
from kapilite.apply.fieldset import EMPTY, FieldSet
from kapilite.apply.items import SchemaMismatch
from kapilite.apply.merge import merge, remove
from kapilite.apply.reconcile import reconciled
from kapilite.errors import ApiError

Object = dict[str, Any]
Schema = dict[str, Any]

UPDATERS_LIMIT = 10
ANCIENT = "ancient-changes"
BEFORE_APPLY = "before-first-apply"

NEVER_OWNED = FieldSet.of(
    [
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        ("f:metadata", "f:name"),
        ("f:metadata", "f:namespace"),
        ("f:metadata", "f:creationTimestamp"),
        ("f:metadata", "f:selfLink"),
        ("f:metadata", "f:uid"),
        ("f:metadata", "f:clusterName"),
        ("f:metadata", "f:generation"),
        ("f:metadata", "f:managedFields"),
        ("f:metadata", "f:resourceVersion"),
    ]
)


def not_written(*, has_status: bool, subresource: str) -> FieldSet:
    """The fields that a write to this address leaves as they are, whatever it sends."""
    if subresource == "status":
        return FieldSet.of([("f:spec",)])
    return FieldSet.of([("f:status",)]) if has_status and not subresource else EMPTY


def updated(
    schema: Schema | None,
    live: Object | None,
    new: Object,
    *,
    manager: str,
    subresource: str,
    now: str,
    reset: FieldSet = EMPTY,
    nothing: Object | None = None,
) -> list[Entry]:
    """The managedFields of `new`, which replaces `live` or is created out of `nothing`.

    `new` is the object as it will be stored but for its managedFields: those that it carries are
    the client's. An empty list (or one empty entry) forgets all owners; what is absent or cannot be
    read leaves them as they are. An object whose owners are not known stays so until it is applied.
    """
    current = _entries(live)
    managed = _wanted(current, new, subresource)
    if live is not None and not managed:
        return []
    kind = types.of_kind(schema)
    write = _Write(kind, str(new.get("apiVersion", "")), subresource, now)
    try:
        return entries.encode(
            write.update(live or nothing or {}, new, managed, manager, reset=reset)
        )
    except SchemaMismatch:
        # The object does not fit its schema and will be refused: who owns what is of no concern.
        return current


def applied(
    schema: Schema | None,
    live: Object | None,
    sent: Object,
    *,
    kind: str,
    api_version: str,
    manager: str,
    force: bool,
    subresource: str,
    now: str,
) -> Object:
    """The live object (or a new one) with what was sent merged in, managedFields included.

    The result shares parts with both. It is not yet pruned, defaulted or checked.
    """
    version, name = sent.get("apiVersion"), sent.get("kind")
    if version != api_version or name != kind:
        raise ApiError(400, "BadRequest", f"invalid object type: {_type_of(sent)}")
    write = _Write(types.of_kind(schema), api_version, subresource, now)
    before: Object = {"apiVersion": api_version, "kind": kind} if live is None else live
    try:
        managed = entries.decode(_entries(live))
    except entries.MalformedEntries:
        managed = {}
    if not managed:
        managed = _before_first_apply(write, before)
    before = _bare(before)
    try:
        merged, owners = write.apply(before, sent, managed, manager, force=force)
    except Conflicts as conflicts:
        allowed = EMPTY
        if manager == lastapplied.MANAGER:
            allowed = lastapplied.taken_over(write.kind, before, api_version)
        if left := conflicts.outside(allowed):
            raise left.refusal() from None
        merged, owners = write.apply(before, sent, managed, manager, force=True)
    if manager == lastapplied.MANAGER:
        lastapplied.follow(merged, sent)
    if owners:
        meta = merged.get("metadata") or {}
        merged["metadata"] = {**meta, "managedFields": entries.encode(owners)}
    if live is not None:
        keep_times(live, merged)
    return merged


def keep_times(live: Object, obj: Object) -> None:
    """Let an object that differs from the live one in nothing but times of entries keep those.

    To be called again where pruning and defaulting may have undone what an apply changed.
    """
    before, after = _entries(live), _entries(obj)
    if before == after or _timeless(before) != _timeless(after):
        return
    if trees.same(_bare(live), _bare(obj)):
        obj["metadata"] = {**obj["metadata"], "managedFields": before}


def _timeless(found: list[Entry]) -> list[Entry]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in found]


def _before_first_apply(write: _Write, live: Object) -> Managed:
    """Whatever was there before anybody's fields were known has an owner of its own."""
    empty = {"apiVersion": live.get("apiVersion"), "kind": live.get("kind")}
    try:
        return write.update(empty, live, {}, BEFORE_APPLY)
    except SchemaMismatch as error:
        what = "failed to create manager for existing fields"
        raise _mismatch(f"{what}: {error}") from None


class _Write(NamedTuple):
    """What the steps of one write have in common."""

    kind: types.Type
    api_version: str
    subresource: str
    now: str

    def update(
        self,
        live: Object,
        new: Object,
        managed: Managed,
        name: str,
        *,
        reset: FieldSet = EMPTY,
    ) -> Managed:
        live = _bare(live)
        managed = reconciled(self.kind, managed)
        change = trees.compare(self.kind, live, _bare(new)).without(reset)
        touched = change.touched
        owners = _lose(managed, touched, change.removed)
        taken = touched - NEVER_OWNED
        if taken:
            manager = entries.updater(name, self.api_version, self.subresource)
            before = managed.get(manager)
            if manager in owners:
                taken |= owners[manager].fields
            owners[manager] = entries.written(before, taken, self.api_version, self.now)
        return _capped(owners)

    def apply(
        self, live: Object, sent: Object, managed: Managed, name: str, *, force: bool
    ) -> tuple[Object, Managed]:
        if isinstance(meta := sent.get("metadata"), dict) and meta.get("managedFields") is not None:
            raise ApiError(400, "BadRequest", "metadata.managedFields must be nil")
        manager = entries.applier(name, self.subresource)
        try:
            items.check(self.kind, sent)
        except SchemaMismatch as error:
            what = f"failed to create typed patch object ({_name_of(sent)})"
            raise _mismatch(f"{what}: {error}") from None
        try:
            merged, owners = self._merged(live, sent, managed, manager)
            change = trees.compare(self.kind, live, merged)
        except SchemaMismatch as error:
            what = f"failed to create typed live object ({_name_of(live)})"
            raise _mismatch(f"{what}: {error}") from None
        own = owners.pop(manager)
        touched = change.touched
        conflicts = {m: both for m, theirs in owners.items() if (both := theirs.fields & touched)}
        if conflicts and not force:
            raise Conflicts(conflicts)
        owners = _lose(owners, touched, change.removed)
        if fields := own.fields - NEVER_OWNED:
            owners[manager] = entries.written(
                managed.get(manager), fields, self.api_version, self.now
            )
        return merged, owners

    def _merged(
        self, live: Object, sent: Object, managed: Managed, manager: Manager
    ) -> tuple[Object, Managed]:
        managed = reconciled(self.kind, managed)
        merged = merge(self.kind, live, sent)
        owned = trees.fields(self.kind, sent)
        last = managed.get(manager)
        owners = {**managed, manager: entries.written(last, owned, self.api_version, self.now)}
        if last:
            merged = self._pruned(merged, sent, owners, last.fields)
        return merged, owners

    def _pruned(self, merged: Object, sent: Object, owners: Managed, last: FieldSet) -> Object:
        """Without what this manager applied last time and none applies or owns now."""
        owned = EMPTY
        for other in owners.values():
            owned |= other.fields
        gone = trees.named(self.kind, last) - trees.named(self.kind, owned)
        if gone:
            # What was a map, and now is a list, has none of the fields that it had.
            gone &= trees.named(self.kind, trees.fields(self.kind, merged))
            # No manager owns an empty list; still it is applied, and so is all that leads to it.
            gone -= trees.named(self.kind, trees.compare(self.kind, {}, sent).added)
        result: Object = remove(self.kind, merged, gone)
        return result


def _lose(managed: Managed, touched: FieldSet, removed: FieldSet) -> Managed:
    """The managers without the fields that another changed; one with none left goes."""
    if not touched and not removed:
        return {manager: owned for manager, owned in managed.items() if owned.fields}
    return {
        manager: owned.now_owning(rest)
        for manager, owned in managed.items()
        if (rest := owned.fields - (owned.fields & touched) - removed)
    }


def _capped(managed: Managed) -> Managed:
    """With the oldest of too many updaters merged into one per version."""
    updaters = [manager for manager in managed if manager.operation == UPDATE]
    excess = len(updaters) - UPDATERS_LIMIT
    if excess <= 0:
        return managed
    result = dict(managed)
    first: dict[str, Manager] = {}
    for manager in sorted(updaters, key=lambda m: (managed[m].time or "", m)):
        if excess <= 0:
            break
        owned = managed[manager]
        bucket = entries.updater(ANCIENT, owned.api_version, "")
        oldest = first.setdefault(owned.api_version, manager)
        if oldest == manager:
            continue
        if bucket not in result:
            result[bucket] = result.pop(oldest)
        fields = owned.fields | result[bucket].fields
        result[bucket] = Owned(fields, owned.api_version, owned.time)
        del result[manager]
        excess -= 1
    return result


def _entries(obj: Object | None) -> list[Entry]:
    meta = (obj or {}).get("metadata")
    found = meta.get("managedFields") if isinstance(meta, dict) else None
    return found if isinstance(found, list) else []


def _wanted(current: list[Entry], new: Object, subresource: str) -> Managed:
    """The owners to start from: the client's if it sent any that can be read, else the live."""
    sent = new.get("metadata", {}).get("managedFields")
    if not subresource and sent is not None and sent != current:
        if sent in ([], [{}]):
            return {}
        try:
            if found := entries.decode(sent, stored=False):
                return found
        except entries.MalformedEntries:
            pass  # a client that garbles them must not take them away from everybody
    try:
        return entries.decode(current)
    except entries.MalformedEntries:
        return {}


def _bare(obj: Object) -> Object:
    """Without managedFields, which has no owner."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return dict(obj)
    return {**obj, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}


def _mismatch(text: str) -> ApiError:
    # A real server blames itself (500, without a reason) for what the client sent wrong.
    return ApiError(400, "", text)


def _type_of(obj: Object) -> str:
    version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    group, _, version = str(version).rpartition("/")
    return f"{group}/{version}, Kind={name}"


def _name_of(obj: Object) -> str:
    meta = obj.get("metadata")
    found = meta if isinstance(meta, dict) else {}
    return f"{found.get('namespace') or ''}/{found.get('name') or ''}; {_type_of(obj)}"
