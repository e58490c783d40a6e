"""The parts of deletion put together: what the rest of the server uses."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kapilite.deletion import verb
from kapilite.deletion.collector import Collector
from kapilite.deletion.follow import Follow
from kapilite.deletion.verb import Deleted, Stale
from kapilite.deletion.worker import Worker
from kapilite.errors import ApiError, NotFound
from kapilite.storage.events import as_object
from kapilite.writes.objects import MODIFIED, conflict, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.deletion.collector import Rest
    from kapilite.deletion.options import DeleteOptions
    from kapilite.kinds import Kind
    from kapilite.registry import Registry
    from kapilite.storage.events import Key
    from kapilite.storage.store import Store, Stored
    from kapilite.writes.objects import Object

    Review = Callable[[Kind, Object, DeleteOptions], Awaitable[None]]


REVIEWS = 5
"""How often a deletion may find that others changed the object while it was reviewed."""


class Deletion:
    """The verb delete, and everything that follows from it.

    For kinds that are `is_reviewed`, `review` is asked before an object is deleted because
    another was, and raises ApiError to keep it; it is tried again later.
    """

    def __init__(self, store: Store, registry: Registry) -> None:
        self.review: Review | None = None
        self.is_reviewed: Callable[[Kind], bool] = lambda _: True
        self._store = store
        self._registry = registry
        self._worker = Worker(store)
        self._collector = Collector(store, registry, self._follow_up, self._worker.turn)
        store.on_change(Follow(store, registry), self._wake)

    def start(self) -> None:
        """Go on with what was begun before the last stop or crash."""
        self._wake()

    async def stop(self) -> None:
        await self._worker.stop()

    def look(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Object:
        """The object that is to be deleted. Raises NotFound, Conflict or Forbidden."""
        return verb.look(self._store, kind, namespace, name, options)[0]

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: DeleteOptions,
        *,
        seen: Object | None = None,
    ) -> Deleted:
        """Delete the object; raises Stale when it is not the one that was `seen` any more."""
        obj, stored = verb.look(self._store, kind, namespace, name, options)
        if seen is not None and seen["metadata"] != obj["metadata"]:
            raise Stale
        return verb.delete(self._store, key_of(kind, namespace, name), options, stored)

    async def reviewed(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: DeleteOptions,
        review: Review | None,
    ) -> Deleted:
        """Delete the object after its review, and review it again when it changed meanwhile.

        Raises Conflict where it changes all the time.
        """
        if review is None:
            return self.delete(kind, namespace, name, options)
        for _ in range(REVIEWS):
            seen = self.look(kind, namespace, name, options)
            await review(kind, seen, options)
            with contextlib.suppress(Stale):
                return self.delete(kind, namespace, name, options, seen=seen)
        raise conflict(kind, name, MODIFIED)

    def settle(self, key: Key, obj: Object, stored: Stored) -> bytes:
        """Store what an update made of an object, or remove it when that released it."""
        return verb.settle(self._store, key, obj, stored)

    def remove(self, key: Key, obj: Object, stored: Stored) -> bytes:
        """Take the object out of the store."""
        return self._store.commit("DELETED", key, obj, stored).body

    def _wake(self) -> None:
        self._worker.wake(self._collector.do)

    def _follow_up(self, key: Key, options: DeleteOptions) -> Rest | None:
        """Delete an object because another went: at once, or later if a webhook is asked before."""
        kind = self._registry.of_resource(key.resource)
        if kind is not None and self.review is not None and self.is_reviewed(kind):
            return lambda: self._ask_and_delete(kind, key, options)
        with self._if_meant(key, options):
            if kind is not None:
                self.delete(kind, key.namespace, key.name, options)
            elif (stored := self._store.get(key)) is not None:
                verb.delete(self._store, key, options, stored)  # no version of it is served
        return None

    async def _ask_and_delete(self, kind: Kind, key: Key, options: DeleteOptions) -> None:
        with self._if_meant(key, options):
            await self.reviewed(kind, key.namespace, key.name, options, self.review)

    @contextlib.contextmanager
    def _if_meant(self, key: Key, options: DeleteOptions) -> Iterator[None]:
        """It is no failure that the object is gone or replaced by now."""
        try:
            yield
        except NotFound:
            pass
        except ApiError:
            stored = self._store.get(key)
            replaced = stored is None or as_object(stored.body)["metadata"]["uid"] != options.uid
            if not (options.uid and replaced):
                raise
