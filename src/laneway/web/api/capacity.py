"""The devices of the cluster for programs, as far as the user may see them."""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from laneway.api import PCIDeviceClaim, SRIOVGPUDevice, USBDeviceClaim, VGPUDevice
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.kube.errors import CredentialsError, UnauthorizedError
from laneway.kube.resource import served
from laneway.views.capacity import shown
from laneway.views.capacity_document import Creatable, free_by_type, stocks_document
from laneway.web import holders
from laneway.web.access import question
from laneway.web.api.errors import Refused
from laneway.web.derived import Once
from laneway.web.standing import standing
from laneway.web.visit import Visit

NEEDS = tuple(
    question("list", served(kind)) for kind in (PCIDeviceClaim, USBDeviceClaim, VGPUDevice)
)
"""The rights without which nothing is said about capacity."""
GPUS = question("list", served(SRIOVGPUDevice))
"""The right to know what could be created."""
_KEPT = 16
"""Documents of a ledger: users who see the same get the same one."""
_RETRY_SECONDS = 5.0

Seen = tuple[frozenset[Consumer], bool]
"""Whose names a user may see, by namespace, and whether the GPUs."""


class Document(NamedTuple):
    """JSON, as it is and by gzip."""

    plain: bytes
    compressed: bytes


class Documents:
    """Made once for a ledger, in a thread, one at a time: a fleet's has millions of characters."""

    def __init__(self) -> None:
        self._places = Once[frozenset[Consumer]]()
        self._made = Once[OrderedDict[Seen, Document]]()
        self._turn = asyncio.Lock()
        self._making: set[asyncio.Task[Document]] = set()

    async def whole(self, visit: Visit) -> Document:
        """Everything that is known of devices. Raises Refused."""
        ledger = await _ledger(visit)
        places = self._places.get(lambda: _places(ledger), ledger)
        await holders.load_consumers(visit, places)
        seen = frozenset(one for one in places if holders.may_see(visit, one)), visit.may(GPUS)
        # The thread goes on when the client goes away, and so does its turn.
        task = asyncio.create_task(self._of(visit, ledger, seen))
        self._making.add(task)
        task.add_done_callback(self._made_one)
        return await asyncio.shield(task)

    def _made_one(self, task: asyncio.Task[Document]) -> None:
        self._making.discard(task)
        if not task.cancelled():
            task.exception()  # Who waited may be gone.

    async def _of(self, visit: Visit, ledger: Ledger, seen: Seen) -> Document:
        async with self._turn:
            now = standing(visit.caches)
            made = self._made.get(OrderedDict, ledger, now.creatable_as_of)
            if seen not in made:
                more = dict(now.creatable) if seen[1] else None
                made[seen] = await asyncio.to_thread(_document, ledger, more, seen[0])
                if len(made) > _KEPT:
                    made.popitem(last=False)
            return made[seen]

    async def by_type(self, visit: Visit) -> Mapping[str, str]:
        """How many devices of each type are free. Raises Refused."""
        return free_by_type(await _ledger(visit))


async def may_look(visit: Visit, refusal: str = "api.forbidden") -> None:
    """Raises Refused where the user may not see who holds devices; `refusal`: its text."""
    access = visit.user.access
    await access.load((*NEEDS, GPUS))
    failure = access.failure
    if isinstance(failure, UnauthorizedError | CredentialsError):
        raise Refused(401, "sign_in.token_refused")
    if any(access.known(one) is None for one in NEEDS):
        why = str(failure) if failure is not None else "it does not answer in time"
        raise Refused(503, "api.not_read", {"why": why}, retry=_RETRY_SECONDS)
    if lacking := [one.resource for one in NEEDS if not access.may(one)]:
        raise Refused(403, refusal, {"resources": ", ".join(lacking)})


async def _ledger(visit: Visit) -> Ledger:
    """The ledger, if the user may see it and it is true now. Raises Refused."""
    await may_look(visit)
    if (away := visit.site.server.away_since) is not None:
        since = away.isoformat(timespec="seconds")
        raise Refused(503, "api.out_of_date", {"since": since}, retry=_RETRY_SECONDS)
    if visit.ledger is None:
        raise Refused(503, "api.waiting", retry=_RETRY_SECONDS)
    return visit.ledger


def _places(ledger: Ledger) -> frozenset[Consumer]:
    """Each namespace with VMs, and each with pods, that have or request devices."""
    return frozenset(one._replace(name="") for one in (*ledger.demands, *ledger.shares))


def _document(ledger: Ledger, more: Creatable | None, seen: frozenset[Consumer]) -> Document:
    found: dict[str, Any] = stocks_document(
        ledger, shown(ledger, ()), more, sees=lambda one: one._replace(name="") in seen
    )
    text = msgspec.json.encode(found)
    return Document(text, gzip.compress(text))
