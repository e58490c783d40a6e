"""Keeps KubeVirt's lists of permitted devices in step with what is claimed and configured.

`core.permitted` says what the lists should be. This looks at what there is, and writes only where
that differs: the whole list, because the API knows no parts of it, together with what we remember
of it, on condition that the object has not changed since. After a conflict it decides again on what
is there now, so an edit by anybody else is never lost, and ours neither.

A list is left alone while the objects that decide about it are not all known; one that cannot be
read could be the last that needs an entry, so then nothing is taken away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.cluster.needs import of_claim, of_usb_claim, of_vgpu
from laneway.core import keys, permitted
from laneway.core.permitted import Collision, Entry, List, Lists, Merged, Record
from laneway.core.raw import Json, JsonObject
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, KubeError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import KUBEVIRTS, KubeVirt, lists_of
from laneway.kube.resource import Key, KubeObject, key_of

log = logging.getLogger(__name__)

COLLISION = "ResourceNameCollision"
CONTESTED = "PermittedDevicesContested"
"""The reasons of events."""
MANAGER = "laneway-manager"
"""Under which name fields are written."""
REPAIRS = 10
"""So many repairs of our entries within `REPAIR_SECONDS` are a person's; more are a program's."""
REPAIR_SECONDS = 60.0
ATTEMPTS = 8
"""How often in a row others may be quicker before they are left in peace for a moment."""


class Permitting(Leading[Key]):
    """The one writer of our entries in every KubeVirt of the cluster."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        metrics: ManagerMetrics,
        recorder: EventRecorder,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.needs = (caches.installations,)
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self._recorder = recorder
        self._clock = clock
        self._reported: dict[Key, frozenset[Collision]] = {}
        self._repairs: dict[Key, deque[float]] = {}
        self._needs: Counter[Entry] = Counter()
        """How many objects need an entry: a cluster has too many to ask each of them every time."""
        self._facts: Mapping[List, Informer[KubeObject]] = {
            List.PCI: caches.claims,
            List.MDEV: caches.vgpus,
            List.USB: caches.usb_claims,
        }
        caches.installations.subscribe(self._installation_changed)
        caches.claims.subscribe(lambda *both: self._changed(*map(of_claim, both)))
        caches.vgpus.subscribe(lambda *both: self._changed(*map(of_vgpu, both)))
        caches.usb_claims.subscribe(lambda *both: self._changed(*map(of_usb_claim, both)))

    def everything(self) -> Iterable[Key]:
        return self._caches.installations.store.keys()

    async def run(self) -> None:
        """Lead until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._facts.values():
                if not informer.synced.is_set():
                    tasks.create_task(self._once_known(informer))
            tasks.create_task(super().run())

    async def _once_known(self, informer: Informer[KubeObject]) -> None:
        await informer.synced.wait()
        self.ask(self.everything())

    def _changed(self, before: Entry | None, after: Entry | None) -> None:
        if before == after:
            return
        if before is not None:
            self._needs[before] -= 1
            if not self._needs[before]:
                del self._needs[before]
        if after is not None:
            self._needs[after] += 1
        self.ask(self.everything())

    def _installation_changed(self, before: KubeVirt | None, after: KubeVirt | None) -> None:
        self._metrics.installations(len(self._caches.installations.store))
        if after is not None:
            self.ask([key_of(after)])
        elif before is not None:
            self._reported.pop(key_of(before), None)
            self._repairs.pop(key_of(before), None)

    async def reconcile(self, key: Key) -> Retry | None:
        """Bring the lists of one KubeVirt to what they should be."""
        stored = self._caches.installations.store.get(key.name, key.namespace)
        for _ in range(ATTEMPTS):
            if stored is None or stored.metadata.deletion_timestamp:
                return None
            try:
                return await self._bring(stored)
            except ConflictError:
                self._metrics.conflict(KUBEVIRTS.kind)
                stored = await self._now(key)
            except NotFoundError:
                return None
        raise KubeError(f"KubeVirt {key}: another client keeps changing it")

    async def _now(self, key: Key) -> KubeVirt | None:
        try:
            return await self._client.get(KUBEVIRTS, key.name, key.namespace)
        except NotFoundError:
            return None

    async def _bring(self, stored: KubeVirt) -> Retry | None:
        present, record = lists_of(stored), _record(stored)
        known = [name for name, informer in self._facts.items() if informer.synced.is_set()]
        wanted = set(self._needs)
        for name in known:
            if self._facts[name].undecodable:
                wanted |= {_entry(own) for own in record if own.list == name}
        merged = permitted.merge(present, record, wanted, known)
        body = _difference(stored, present, merged)
        if body and merged.record == record and self._contested(stored):
            return Retry(REPAIR_SECONDS)
        if body:
            await self._client.patch(
                KUBEVIRTS,
                stored.metadata.name,
                body,
                stored.metadata.namespace,
                field_manager=MANAGER,
            )
            self._metrics.wrote("patch", KUBEVIRTS.kind)
            _log(stored, record, merged.record)
        self._tell(stored, merged, wanted)
        return None

    def _contested(self, stored: KubeVirt) -> bool:
        """Whether our entries were corrected so often that another controller must change them."""
        key, now = key_of(stored), self._clock()
        repairs = self._repairs.setdefault(key, deque())
        while repairs and repairs[0] <= now - REPAIR_SECONDS:
            repairs.popleft()
        if len(repairs) < REPAIRS:
            repairs.append(now)
            return False
        words = (
            "another client keeps changing Laneway's entries in the lists of permitted devices; "
            f"Laneway corrects them again in {REPAIR_SECONDS:.0f} s. The managedFields of the "
            "object name that client: stop it from writing these lists"
        )
        log.warning("KubeVirt %s: %s", key, words)
        self._recorder.record(KUBEVIRTS.ref(stored), CONTESTED, words, warning=True)
        return True

    def _tell(self, stored: KubeVirt, merged: Merged, wanted: Iterable[Entry]) -> None:
        """Count, and say once what is amiss."""
        found = permitted.collisions(merged, wanted)
        counts = Counter(str(key.list) for key in merged.record)
        self._metrics.permitted({name: counts[name] for name in List}, len(found))
        key = key_of(stored)
        for collision in found:
            if collision not in self._reported.get(key, ()):
                log.warning("KubeVirt %s: %s", key, collision.words)
                about = KUBEVIRTS.ref(stored)
                self._recorder.record(about, COLLISION, collision.words, warning=True)
        self._reported[key] = frozenset(found)


def _record(stored: KubeVirt) -> Record:
    """What we remember of them; nothing where a hand has spoilt it, so that no entry is lost."""
    text = stored.metadata.annotations.get(keys.ANNOTATION_PERMITTED, "")
    try:
        return permitted.read_record(text)
    except ValueError as error:
        log.warning(
            "KubeVirt %s: the annotation %s cannot be read, so the entries in its lists are not "
            "treated as Laneway's: %s",
            key_of(stored),
            keys.ANNOTATION_PERMITTED,
            error,
        )
        return {}


def _entry(own: permitted.Key) -> Entry:
    return Entry(own.list, own.resource, own.selectors[0])


def _difference(stored: KubeVirt, present: Lists, merged: Merged) -> JsonObject:
    """The patch that makes one of the other; empty when there is nothing to do."""
    lists = {
        str(name): items or None
        for name, items in merged.lists.items()
        if items != [*present[name]]
    }
    text = permitted.record_text(merged.record)
    remembered = stored.metadata.annotations.get(keys.ANNOTATION_PERMITTED, "")
    if not lists and text == remembered:
        return {}
    metadata: dict[str, Json] = {"resourceVersion": stored.metadata.resource_version}
    if text != remembered:
        metadata["annotations"] = {keys.ANNOTATION_PERMITTED: text or None}
    body: dict[str, Json] = {"metadata": metadata}
    if lists:
        body["spec"] = {"configuration": {"permittedHostDevices": lists}}
    return body


def _log(stored: KubeVirt, before: Record, after: Record) -> None:
    for sign, names in (("+", after.keys() - before.keys()), ("-", before.keys() - after.keys())):
        for one in sorted(names):
            log.info(
                "KubeVirt %s: %s%s %s (%s)",
                key_of(stored),
                sign,
                one.list,
                one.resource,
                " and ".join(one.selectors),
            )
