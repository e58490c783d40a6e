"""The newest that is known of an object: what the cache shows, or the answer to our own last write.

A watch shows a write only after a moment, and who decides from the cache alone does again what is
done. So the answers to our own writes are kept until the cache has them. A manager that begins to
lead asks the server for each object once: what the last leader wrote the cache may not show yet. So
is the server asked about what the cache does not show at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic

from laneway.kube.informer import Informer
from laneway.kube.resource import Key, T, key_of


class Latest(Generic[T]):
    """Of the objects of one kind whose status is ours alone to write."""

    def __init__(self, informer: Informer[T], read: Callable[[Key], Awaitable[T]]) -> None:
        """`read` asks the server."""
        self._store = informer.store
        self._read = read
        self._known: dict[Key, T | None] = {}
        """Those that were read; None: the cache is as new as anything that we have seen."""
        informer.subscribe(self._seen)

    async def get(self, key: Key) -> T:
        """One object. Raises NotFoundError."""
        shown = self._store.get(key.name, key.namespace)
        if shown is not None and key in self._known:
            return self._known[key] or shown
        found = await self._read(key)
        self.wrote(found)
        return found

    def wrote(self, answer: T) -> None:
        """The server's answer to a write."""
        key = key_of(answer)
        shown = self._store.get(key.name, key.namespace)
        old = shown is None or _version(shown) < _version(answer)
        self._known[key] = answer if old else None

    def invalidate(self, key: Key) -> None:
        """An object has changed, and the cache may not show it yet."""
        self._known.pop(key, None)

    def forget(self) -> None:
        """Another manager may write from now on."""
        self._known.clear()

    def _seen(self, before: T | None, after: T | None) -> None:
        if after is not None:
            known = self._known.get(key_of(after))
            if known is not None and _version(known) <= _version(after):
                self._known[key_of(after)] = None
        elif before is not None:
            self._known.pop(key_of(before), None)


def _version(obj: T) -> int:
    version = obj.metadata.resource_version or ""
    return int(version) if version.isascii() and version.isdecimal() else 0
