"""Create, update, patch and apply: one object, one transaction.

A write takes the object in, fills in what the server decides, lets webhooks change it, checks it
and commits it. A write that changes nothing commits nothing, so it wakes no watch. An update sees
the object it replaces and is refused when the client had seen another (`Conflict`); one that did
not say what it had seen is done again on an object that changed meanwhile. A dry run does all of it
and stores nothing.

Only webhooks are waited for. Where none is concerned, everything from the reading of the object to
its commit is one step of the event loop.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

import msgspec

from kapilite import builtin, metadata
from kapilite.admission.attributes import Attributes, Refused
from kapilite.apply import manage
from kapilite.errors import AlreadyExists, ApiError, NotFound, Undecodable
from kapilite.problems import invalid, rejected
from kapilite.schemas.comparing import same
from kapilite.storage.events import Key, as_object, in_form
from kapilite.storage.store import encode
from kapilite.writes import cluster_ips, namespaces, priorities, subresources
from kapilite.writes.objects import (
    MODIFIED,
    Object,
    Options,
    Outcome,
    Target,
    check,
    complete,
    conflict,
    desired,
    has_generation,
    key_of,
    match,
    not_found,
    require_name,
    settle,
    take_in,
    to_storage,
)
from kapilite.writes.subresources import STATUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapilite.address import Address
    from kapilite.admission.dispatch import Admission
    from kapilite.deletion.background import Deletion
    from kapilite.endpoints.access import Access
    from kapilite.kinds import Kind
    from kapilite.registry import Registry
    from kapilite.storage.store import Store, Stored
    from kapilite.writes.subresources import Subresource

ATTEMPTS = 5
"""How often an update may find that others changed the object while webhooks were asked."""

GONE = "the object was removed; an apply that names a resourceVersion cannot create it"


class Resources:
    """The writing verbs but delete."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        deletion: Deletion,
        admission: Admission,
        access: Access,
    ) -> None:
        self._store = store
        self._registry = registry
        self._deletion = deletion
        self._admission = admission
        self._access = access

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        stored = self._store.get(key_of(kind, namespace, name))
        if stored is None:
            raise not_found(kind, name)
        return stored

    async def create(self, kind: Kind, namespace: str, sent: Object, options: Options) -> Outcome:
        obj = take_in(kind, namespace, sent)
        return await self._create(kind, namespace, obj, options)

    async def replace(
        self, what: Target, sent: Object, options: Options, *, unconditional: bool
    ) -> Outcome:
        """Put `sent` in the place of what is there.

        Unless `unconditional`, it must say which resourceVersion it is based on.
        """

        def change(old: Object) -> Object:
            new = self._take_in(what, sent, options)
            require_name(what.name, new["metadata"])
            if not unconditional and not new["metadata"].get("resourceVersion"):
                problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise rejected(what.kind, what.name, [problem])
            match(what, new, old)
            return what.at.merge(old, new)

        return await self._update(what, change, options)

    async def patch(
        self, what: Target, changed: Callable[[Object], Object], options: Options
    ) -> Outcome:
        """Put `changed` of what is there in its place; what that gives must be an object."""

        def change(old: Object) -> Object:
            new = self._take_in(what, changed(what.at.show(old)), options)
            uid = new["metadata"].setdefault("uid", old["metadata"]["uid"])
            if uid != old["metadata"]["uid"]:  # a patch of it, and no precondition
                problem = invalid("metadata.uid", uid, "field is immutable")
                raise rejected(what.kind, what.name, [problem])
            match(what, new, old)
            return what.at.merge(old, new)

        try:
            return await self._update(what, change, options)
        except Undecodable as error:
            raise rejected(what.kind, "", [invalid("patch", "", error.message)]) from None

    async def apply(self, what: Target, sent: Object, options: Options) -> tuple[Outcome, bool]:
        """Make the fields of `sent` this manager's; whether the object is new.

        Raises a Conflict that names their other owners, unless the options force it.
        """
        kind, at = what.kind, what.at
        new = self._take_in(what, sent, options)
        require_name(what.name, new["metadata"])

        def change(old: Object) -> Object:
            match(what, new, old)
            return self._applied(what, old, at.part(new), options)

        gone = () if at.name else (NotFound,)  # no subresource makes an object
        for _ in range(ATTEMPTS):
            found = self._store.get(key_of(kind, what.namespace, what.name))
            # It may come or go while webhooks are asked.
            if found is not None or at.name:
                with contextlib.suppress(*gone):
                    return await self._update(what, change, options, owned=True), False
            else:
                self._access.require_create(kind, what.namespace, what.name, options.user)
                if new["metadata"].get("resourceVersion"):
                    raise conflict(kind, what.name, GONE)
                obj = self._applied(what, None, at.part(new), options)
                with contextlib.suppress(AlreadyExists):
                    return await self._create(kind, what.namespace, obj, options, owned=True), True
        raise conflict(kind, what.name, MODIFIED)

    async def change(
        self, what: Target, changed: Callable[[Object], Object], options: Options
    ) -> Outcome:
        """Put what the server itself makes of the object in its place."""
        return await self._update(what, changed, options)

    async def admitted(
        self, kind: Kind, where: Address, sent: Object, options: Options
    ) -> tuple[Object, tuple[str, ...]]:
        """What webhooks make of an object that is posted to a subresource, and never stored."""
        if not self._admission.concerns(kind, "CREATE", where.subresource):
            return sent, ()
        write = Attributes(
            operation="CREATE",
            kind=kind,
            name=where.name,
            namespace=where.namespace,
            subresource=where.subresource,
            object=sent,
            user=options.user,
            dry_run=options.dry_run,
            options=options.as_sent("CREATE"),
        )
        new, warnings = await self._admission.mutate(write)
        write = msgspec.structs.replace(write, object=new)
        return new or sent, warnings + await self._admission.validate(write)

    async def _create(
        self, kind: Kind, namespace: str, obj: Object, options: Options, *, owned: bool = False
    ) -> Outcome:
        """Store a new object; `owned` says that its managedFields are settled."""
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise ApiError(400, "BadRequest", text)
        metadata.for_create(meta, generation=has_generation(kind))
        namespaces.require(self._store, kind, namespace, meta.get("name", ""))
        if kind.has_status and kind.resource != "nodes":  # a kubelet tells its state at once
            obj.pop(STATUS, None)
        warnings = complete(kind, obj, options)
        if not owned:
            _own(kind, obj, None, options)
        at = subresources.itself(kind)
        write = self._write(kind, at, obj, None, options)
        if write:
            obj, said = await self._mutated(write, at, obj)
            warnings += said
        check(kind, obj, None, self._registry)
        self._settle(kind, obj, None, options)
        if write:
            warnings += await self._validated(write, at, obj, warnings)
            namespaces.require(self._store, kind, namespace, obj["metadata"]["name"])
            self._settle(kind, obj, None, options)
        key = key_of(kind, namespace, obj["metadata"]["name"])
        with self._store.transaction(dry_run=options.dry_run):
            if found := self._store.get(key):
                text = f'{kind.resource} "{key.name}" already exists'
                if "deletionTimestamp" in as_object(found.body)["metadata"]:
                    text = f"object is being deleted: {text}"
                raise AlreadyExists(text, name=key.name, group=kind.group, kind=kind.plural)
            stored = self._store.commit("ADDED", key, to_storage(kind, obj), None)
        if options.dry_run:
            del obj["metadata"]["resourceVersion"]
            return Outcome(encode(obj), warnings)
        return Outcome(stored.body, warnings)

    async def _update(
        self, what: Target, change: Callable[[Object], Object], options: Options, **how: bool
    ) -> Outcome:
        """Replace the object by what `change` makes of it."""
        for _ in range(ATTEMPTS):
            stored = self.get(what.kind, what.namespace, what.name)
            try:
                return await self._attempt(what, stored, change, options, **how)
            except _Moved:  # while webhooks were asked
                continue
        raise conflict(what.kind, what.name, MODIFIED)

    async def _attempt(
        self,
        what: Target,
        stored: Stored,
        change: Callable[[Object], Object],
        options: Options,
        *,
        owned: bool = False,
    ) -> Outcome:
        kind = what.kind
        body = in_form(kind, stored.body)
        old = as_object(body)
        # What is made of an object shares parts with it, and those are changed in place below.
        obj = change(as_object(body))
        warnings = complete(kind, obj, options)
        metadata.for_update(obj["metadata"], old["metadata"])
        if not owned:
            _own(kind, obj, old, options, what.at.name)
        write = self._write(kind, what.at, obj, old, options)
        if write:
            obj, said = await self._mutated(write, what.at, obj)
            metadata.for_update(obj["metadata"], old["metadata"])
            warnings += said
        check(kind, obj, old, self._registry)
        self._settle(kind, obj, old, options)
        if has_generation(kind) and not same(desired(kind, obj), desired(kind, old)):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if write:
            warnings += await self._validated(write, what.at, obj, warnings)
            self._settle(kind, obj, old, options)
        manage.keep_times(old, obj)
        if same(obj, old):
            return Outcome(stored.body, warnings)
        key = key_of(kind, what.namespace, what.name)
        with self._store.transaction(dry_run=options.dry_run):
            if write:
                self._require_unmoved(key, stored)
            result = self._deletion.settle(key, to_storage(kind, obj), stored)
        if options.dry_run:
            obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            return Outcome(encode(obj), warnings)
        return Outcome(result, warnings)

    def _require_unmoved(self, key: Key, seen: Stored) -> None:
        now = self._store.get(key)
        if now is None or now.rv != seen.rv:
            raise _Moved

    @staticmethod
    def _take_in(what: Target, sent: Object, options: Options) -> Object:
        obj = take_in(what.at.kind, what.namespace, sent)
        if what.at.name not in ("", STATUS):
            complete(what.at.kind, obj, options)  # only a part of it will be looked at
        return obj

    def _settle(self, kind: Kind, obj: Object, old: Object | None, options: Options) -> None:
        """What depends on other objects, and so is done again after webhooks were waited for."""
        self._access.guard(kind, obj, old, options.user)
        settle(kind, obj, old, self._registry)
        self._access.fill_in(kind, obj)
        if old is None:
            priorities.resolve(self._store, kind, obj)
        cluster_ips.allot(self._store, kind, obj, old)

    # Webhooks.

    def _write(
        self, kind: Kind, at: Subresource, obj: Object, old: Object | None, options: Options
    ) -> Attributes | None:
        """The write as webhooks are to see it; None where none wants to."""
        operation: Literal["CREATE", "UPDATE"] = "CREATE" if old is None else "UPDATE"
        if not (at.reviewed and self._admission.concerns(kind, operation, at.name)):
            return None
        return Attributes(
            operation=operation,
            kind=kind,
            name=obj["metadata"].get("name", ""),
            namespace=obj["metadata"].get("namespace", ""),
            subresource=at.name,
            object=at.show(obj),
            old_object=None if old is None else at.show(old),
            user=options.user,
            dry_run=options.dry_run,
            options=options.as_sent(operation),
        )

    async def _mutated(
        self, write: Attributes, at: Subresource, obj: Object
    ) -> tuple[Object, tuple[str, ...]]:
        """What webhooks make of the object, as far as the address that is written to reaches."""
        new, warnings = await self._admission.mutate(write)
        assert new is not None  # noqa: S101 - only a deletion has none
        return at.merge(obj, new), warnings

    async def _validated(
        self, write: Attributes, at: Subresource, obj: Object, before: tuple[str, ...]
    ) -> tuple[str, ...]:
        try:
            write = msgspec.structs.replace(write, object=at.show(obj))
            return await self._admission.validate(write)
        except Refused as refusal:
            refusal.warnings = before + refusal.warnings
            raise

    def _applied(self, what: Target, old: Object | None, sent: Object, options: Options) -> Object:
        return manage.applied(
            what.kind.schema,
            old,
            sent,
            kind=what.kind.kind,
            manager=options.manager,
            force=options.force,
            subresource=what.at.name,
            now=metadata.now(),
            api_version=what.kind.api_version,
        )


class _Moved(Exception):  # noqa: N818 - nothing is wrong, it is done again
    """The object was changed by others while its update was under way."""


def _own(
    kind: Kind, obj: Object, old: Object | None, options: Options, subresource: str = ""
) -> None:
    """Write down whose the changed fields are."""
    entries = manage.updated(
        kind.schema,
        old,
        obj,
        manager=options.manager,
        subresource=subresource,
        now=metadata.now(),
        reset=manage.not_written(has_status=kind.has_status, subresource=subresource),
        nothing=builtin.empty(kind),
    )
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)
