"""What follows from a deletion, object by object; each step can be done twice without harm.

An object all of whose owners are absent goes. One that still has an owner loses its references to
the absent ones. An owner that is deleted in the foreground stays until no dependent blocks it any
more; one that is deleted with `orphan` stays until its dependents are disowned. Namespaces and
definitions stay until they are empty. Nothing is remembered between two looks at an object: what
is stored says what is to be done.

Many objects are looked at in one transaction, since a commit costs more than a look. What has to
wait (for a webhook, a turn) is left to be done after it. An object that fails, whatever
the reason, keeps no other from being looked at; its failure is reported when all others are done.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kapilite import builtin
from kapilite.deletion import definitions, namespaces, owners, reports
from kapilite.deletion.options import DeleteOptions
from kapilite.deletion.verb import FOREGROUND, ORPHAN, settle
from kapilite.errors import ApiError
from kapilite.storage.events import Key, as_object
from kapilite.storage.store import FIRST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from kapilite.registry import Registry
    from kapilite.storage.store import Store, Stored, Work
    from kapilite.writes.objects import Object

    Rest = Callable[[], Awaitable[None]]
    """What is left to do, outside of the transaction."""
    Delete = Callable[[Key, DeleteOptions], Rest | None]

log = logging.getLogger(__name__)

CHUNK = 50
"""Objects in one transaction: some milliseconds."""


class Collector:
    """Does one piece of work at a time; `delete` is the verb, `turn` lets others have theirs."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        delete: Delete,
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._registry = registry
        self._delete = delete
        self._turn = turn

    async def do(self, work: Work) -> None:
        if work.uid:
            await self._each(
                lambda after: self._store.dependents(work.uid, after=after, limit=CHUNK)
            )
            return
        found = self._find(work.key)
        if found is None:
            return
        obj, _ = found
        if work.key.resource == builtin.NAMESPACES and namespaces.is_pending(obj):
            await self._empty_namespace(work.key)
        elif work.key.resource == builtin.CRDS and definitions.is_pending(obj):
            await self._empty_definition(work.key)
        elif work.key.resource == builtin.CRDS:
            # Owners of this kind can be judged from now on.
            await self._each(lambda after: self._store.owned(after, CHUNK))
        if owners.references(obj) and (
            ref := owners.misplaced(self._store, self._registry, work.key, obj)
        ):
            reports.misplaced(self._store, work.key, obj, ref)
        if failure := await self._look_at_all([work.key]):
            raise failure

    async def _each(self, chunk: Callable[[Key], list[Key]]) -> None:
        after = FIRST
        failure: Exception | None = None
        while keys := chunk(after):
            failure = await self._look_at_all(keys) or failure
            after = keys[-1]
        if failure:
            raise failure

    async def _look_at_all(self, keys: Sequence[Key]) -> Exception | None:
        """Look at each of them; one of the failures, if there are any."""
        failure: Exception | None = None
        try:
            with self._store.transaction():
                rests = [self._look_at(key) for key in keys]
        except Exception as error:  # noqa: BLE001 - reported by the caller
            if len(keys) == 1:
                error.add_note(f"while the collector looked at {keys[0]}")
                return error
            for key in keys:  # one that fails takes no other with it
                failure = await self._look_at_all([key]) or failure
            return failure
        await self._turn()
        for rest in rests:
            if rest is not None:
                try:
                    await rest()
                except Exception as error:  # noqa: BLE001 - likewise
                    failure = error
                await self._turn()
        return failure

    # Owners and dependents.

    def _look_at(self, key: Key) -> Rest | None:
        found = self._find(key)
        if found is None:
            return None
        obj, stored = found
        meta = obj["metadata"]
        if "deletionTimestamp" in meta:
            finalizers = meta.get("finalizers") or ()
            if ORPHAN in finalizers:
                return lambda: self._orphan(key, meta["uid"])
            if FOREGROUND in finalizers and not self._is_blocked(meta["uid"]):
                self._take_finalizer(key, FOREGROUND)
            return None
        refs = owners.classify(self._store, self._registry, key, obj)
        if refs.unclear:
            return None
        if refs.solid:
            gone = {ref["uid"] for ref in (*refs.absent, *refs.waiting)}
            if gone:
                owners.disown(obj, gone)
                self._store.commit("MODIFIED", key, obj, stored)
        elif refs.waiting and self._store.dependents(meta["uid"], limit=1):
            if self._is_in_circle(meta["uid"]):
                owners.unblock(obj)
                if obj != as_object(stored.body):
                    self._store.commit("MODIFIED", key, obj, stored)
            return self._delete(key, DeleteOptions(policy="Foreground", uid=meta["uid"]))
        elif refs.waiting or refs.absent:
            return self._delete(key, DeleteOptions(policy=_policy(meta), uid=meta["uid"]))
        return None

    def _is_blocked(self, uid: str) -> bool:
        return bool(self._store.dependents(uid, limit=1, blocking=True))

    def _is_in_circle(self, uid: str) -> bool:
        """Whether a dependent waits for its own dependents: this object may be one of them."""
        found = (self._find(key) for key in self._store.dependents(uid))
        return any(one is not None and owners.is_waiting(one[0]) for one in found)

    async def _orphan(self, key: Key, uid: str) -> None:
        while keys := self._store.dependents(uid, limit=CHUNK):
            with self._store.transaction():
                for dependent in keys:
                    stored = self._store.get(dependent)
                    assert stored is not None  # noqa: S101 - the index follows the objects
                    obj = as_object(stored.body)
                    owners.disown(obj, {uid})
                    self._store.commit("MODIFIED", dependent, obj, stored)
            await self._turn()
        self._take_finalizer(key, ORPHAN)

    def _take_finalizer(self, key: Key, finalizer: str) -> None:
        found = self._find(key)
        if found is None or finalizer not in (found[0]["metadata"].get("finalizers") or ()):
            return
        obj, stored = found
        meta = obj["metadata"]
        meta["finalizers"] = [name for name in meta["finalizers"] if name != finalizer]
        if not meta["finalizers"]:
            del meta["finalizers"]
        settle(self._store, key, obj, stored)

    # What holds content.

    async def _empty_namespace(self, key: Key) -> None:
        remains = namespaces.Remains()
        kinds = {k.resource: k for k in self._registry.kinds if k.namespaced and k.stored}
        for kind in kinds.values():
            errors = await self._empty(kind.resource, key.name)
            remains.errors += errors
        for kind in kinds.values():
            for row in self._store.rows(kind.resource, key.name):
                remains.add(kind, as_object(row.body)["metadata"])
        self._change(key, lambda obj: namespaces.report(obj, remains))
        if remains.errors:
            raise ApiError(409, "Conflict", remains.errors[0])
        if not remains.instances:
            self._change(key, namespaces.finalize)

    async def _empty_definition(self, key: Key) -> None:
        self._change(key, definitions.begin)
        errors = await self._empty(key.name, None)
        if errors:
            self._change(key, lambda obj: definitions.fail(obj, errors[0]))
            raise ApiError(409, "Conflict", errors[0])
        if not self._store.count(key.name):
            self._change(key, definitions.end)

    async def _empty(self, resource: str, namespace: str | None) -> list[str]:
        """Delete all objects that are not being deleted yet; what kept some from it."""
        errors = []
        after = ("", "")
        while rows := _chunk(self._store.rows(resource, namespace, after=after)):
            keys = [
                Key(resource, row.namespace, row.name)
                for row in rows
                if "deletionTimestamp" not in as_object(row.body)["metadata"]
            ]
            errors += await self._delete_all(keys)
            after = (rows[-1].namespace, rows[-1].name)
        return errors

    async def _delete_all(self, keys: Sequence[Key]) -> list[str]:
        """Delete them, as many as possible; what kept some from it."""
        errors = []
        try:
            with self._store.transaction():
                rests = [self._delete(key, DeleteOptions(policy="Background")) for key in keys]
        except Exception as error:  # noqa: BLE001 - told by the status
            if len(keys) == 1:
                return [_text(error, keys[0])]
            return [text for key in keys for text in await self._delete_all([key])]
        await self._turn()
        for key, rest in zip(keys, rests, strict=True):
            if rest is not None:
                try:
                    await rest()
                except Exception as error:  # noqa: BLE001 - likewise
                    errors.append(_text(error, key))
                await self._turn()
        return errors

    def _change(self, key: Key, change: Callable[[Object], None]) -> None:
        """Change the object as it is now, unless it is no longer to be emptied."""
        found = self._find(key)
        pending = namespaces if key.resource == builtin.NAMESPACES else definitions
        if found is None or not pending.is_pending(found[0]):
            return
        obj, stored = found
        change(obj)
        if obj != as_object(stored.body):
            settle(self._store, key, obj, stored)

    def _find(self, key: Key) -> tuple[Object, Stored] | None:
        stored = self._store.get(key)
        return None if stored is None else (as_object(stored.body), stored)


def _text(error: Exception, key: Key) -> str:
    """Why an object was not deleted, for the status of what holds it."""
    if isinstance(error, ApiError):
        return error.message
    log.error("deletion failed", exc_info=error, extra={"resource": key.resource})
    return f'{key.resource} "{key.name}": internal error'


def _policy(meta: dict[str, Any]) -> str:
    """The finalizers say what is to become of the object's own dependents."""
    finalizers = meta.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _chunk(rows: Iterator[Any]) -> list[Any]:
    return [row for _, row in zip(range(CHUNK), rows, strict=False)]
