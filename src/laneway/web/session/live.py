"""The sessions that are live in this process.

A session ends when it was not used for half an hour, twelve hours after its sign-in, when its token
ends, when its user signs out, or when there are too many; then everything that it had is closed,
and its ids are worth nothing. Only so is a stolen cookie worthless after sign-out.

The id is replaced every ten minutes of use. The old one stays good until the browser has shown that
it has the new one, because an answer can get lost, and a minute longer, because requests run at
the same time.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from laneway.kube.client import Client
from laneway.web.access import Access
from laneway.web.management import Management
from laneway.web.planning import Own
from laneway.web.session.identity import Person

SWEEP_SECONDS = 15.0


class Limits(NamedTuple):
    """How long sessions live, in seconds, and how many there may be."""

    idle: float = 30 * 60.0
    longest: float = 12 * 3600.0
    rotate: float = 600.0
    grace: float = 60.0
    of_a_user: int = 20
    of_all: int = 1000


@dataclass(eq=False, slots=True)
class Session:
    """One user in one browser. The token is in the client, and in no text of this."""

    person: Person
    client: Client = field(repr=False)
    """Requests with the user's own token."""
    access: Access = field(repr=False)
    csrf: str = field(repr=False)
    """What forms of this user carry."""
    browser: str = field(repr=False)
    until: float
    used: float
    management: Management = field(default_factory=Management, repr=False)
    """What the user sees of the Rancher management cluster."""
    own: Own = field(default_factory=Own, repr=False)
    """What the user has uploaded."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the session is over: a stream of it ends then."""
    id: str = field(default="", repr=False)
    since: float = 0.0
    """When the id was made."""
    old_id: str = field(default="", repr=False)
    old_until: float | None = None
    """None: until the browser uses the new id."""

    @property
    def name(self) -> str:
        return self.person.name


class Found(NamedTuple):
    """A session, and the id that the browser is to have from now on; empty: it has it."""

    session: Session
    new_id: str = ""


class Sessions:
    """Those of one process."""

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits = limits or Limits()
        self._clock = clock
        self._by_id: dict[str, Session] = {}
        self._live: set[Session] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._live)

    def start(
        self, person: Person, client: Client, *, browser: str, csrf: str, ends: float | None = None
    ) -> Session:
        """A new session, with a new id; `ends`: when the token does.

        The one that its browser had before ends, whose cookie is replaced.
        """
        now = self._clock()
        self.end_overdue()
        for before in [one for one in self._live if one.browser == browser]:
            self.end(before)
        self._make_room(person.name)
        longest = now + self._limits.longest
        until = longest if ends is None else min(ends, longest)
        session = Session(person, client, Access(client), csrf, browser, until, now)
        self._live.add(session)
        self._name(session)
        return session

    def find(self, id_: str, browser: str, *, uses: bool = True) -> Found | None:
        """The live session of an id in the browser that it belongs to.

        `uses`: whether the user does something; what a page does by itself keeps no session alive.
        """
        session = self._by_id.get(id_)
        now = self._clock()
        if session is None or not secrets.compare_digest(session.browser, browser):
            return None
        if self._is_over(session, now):
            self.end(session)
            return None
        if id_ == session.old_id and session.old_until is not None and now >= session.old_until:
            return None
        if uses:
            session.used = now
        return Found(session, self._turn(session, id_, now))

    def end(self, session: Session) -> None:
        """Make its ids worthless, at once."""
        if session not in self._live:
            return
        self._live.discard(session)
        for id_ in (session.id, session.old_id):
            self._by_id.pop(id_, None)
        session.own.uploaded = None
        session.ended.set()
        task = asyncio.create_task(_close(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end_overdue(self) -> None:
        """End the sessions whose time is over."""
        now = self._clock()
        for session in [one for one in self._live if self._is_over(one, now)]:
            self.end(session)

    async def run(self) -> None:
        """End sessions when it is time; at the end, all of them."""
        try:
            while True:
                await asyncio.sleep(SWEEP_SECONDS)
                self.end_overdue()
        finally:
            for session in list(self._live):
                self.end(session)
            await asyncio.gather(*self._closing, return_exceptions=True)

    def _is_over(self, session: Session, now: float) -> bool:
        return now >= session.until or now >= session.used + self._limits.idle

    def _make_room(self, user: str) -> None:
        """End the sessions that were not used for longest, if this would be too many."""
        by_use = sorted(self._live, key=lambda one: one.used)
        of_user = [one for one in by_use if one.name == user]
        for session in of_user[: max(0, len(of_user) - self._limits.of_a_user + 1)]:
            self.end(session)
            by_use.remove(session)
        for session in by_use[: max(0, len(by_use) - self._limits.of_all + 1)]:
            self.end(session)

    def _turn(self, session: Session, shown: str, now: float) -> str:
        """Replace the id if it is time; the id that the browser does not know to be in force."""
        if shown == session.old_id:
            return session.id if session.old_until is None else ""
        if session.old_id and session.old_until is None:
            session.old_until = now + self._limits.grace
        if now < session.since + self._limits.rotate:
            return ""
        self._by_id.pop(session.old_id, None)
        session.old_id, session.old_until = session.id, None
        self._name(session)
        return session.id

    def _name(self, session: Session) -> None:
        session.id, session.since = secrets.token_urlsafe(32), self._clock()
        self._by_id[session.id] = session


async def _close(session: Session) -> None:
    await session.management.end()
    await session.access.close()
    await session.client.__aexit__(None, None, None)
