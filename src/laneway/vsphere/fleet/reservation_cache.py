"""All reservations as of our own last write, however far the cache of the manager is behind.

A watch shows a write only after a moment, so decisions from the cache alone would reserve the same
device twice. So what was written is entered here with the server's answer; what others
write, such as the deletion of a reservation, comes from the cache.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from laneway.api.vsphere import VSphereReservation
from laneway.controllers.ledger.vsphere import reservation_of
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.resource import Key, key_of, served

log = logging.getLogger(__name__)

RESERVATIONS = served(VSphereReservation)


class ReservationCache:
    """Reservations by their keys, which are those of their VSphereVMs."""

    def __init__(self, informer: Informer[VSphereReservation]) -> None:
        self._entries: dict[Key, tuple[VSphereReservation, Reservation]] = {}
        self._removed: set[str] = set()
        """The uids of those that we deleted and that the cache still shows."""
        informer.subscribe(self._seen)

    def get(self, key: Key) -> VSphereReservation | None:
        entry = self._entries.get(key)
        return entry[0] if entry is not None else None

    def reservation(self, key: Key) -> Reservation | None:
        """What a machine has reserved; None: nothing."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[1].host else None

    def __iter__(self) -> Iterator[VSphereReservation]:
        return iter([obj for obj, _ in self._entries.values()])

    def put(self, found: VSphereReservation) -> None:
        """What the server has stored, as an answer to a write or a watch says.

        An answer can come after the watch has shown the write, and even a later one: what is older
        than what is known would bring back what is reserved no more.
        """
        known = self.get(key_of(found))
        same = known is not None and known.metadata.uid == found.metadata.uid
        if known is None or not same or _version(known) <= _version(found):
            self._entries[key_of(found)] = found, reservation_of(found)

    def removed(self, obj: VSphereReservation) -> None:
        """We deleted it, and nothing holds it any more."""
        key, uid = key_of(obj), obj.metadata.uid
        known = self.get(key)
        if known is not None and known.metadata.uid == uid:
            del self._entries[key]
            self._removed.add(uid)

    async def load(self, client: Client) -> None:
        """Learn what the last leader wrote, which the cache may not show yet."""
        found: dict[Key, tuple[VSphereReservation, Reservation]] = {}
        async for page in client.list(RESERVATIONS):
            for raw in page.items:
                try:
                    one = RESERVATIONS.decode(raw)
                    found[key_of(one)] = one, reservation_of(one)
                except ValueError as error:
                    # The informer names it; other machines do not wait for it.
                    log.error("a VSphereReservation cannot be read: %s", error)  # noqa: TRY400 - its text says it all
        self._entries = found

    def _seen(self, before: VSphereReservation | None, after: VSphereReservation | None) -> None:
        if after is None:
            if before is not None:
                self._removed.discard(before.metadata.uid)
                known = self.get(key_of(before))
                if known is not None and known.metadata.uid == before.metadata.uid:
                    del self._entries[key_of(before)]
            return
        if after.metadata.uid not in self._removed:
            self.put(after)


def _version(obj: VSphereReservation) -> int:
    version = obj.metadata.resource_version
    return int(version) if version.isascii() and version.isdecimal() else 0
