"""One look of one user at one page: all that a page or an action may use.

What is read comes from the caches that all share, as far as the user may see it; what is written
goes through the user's own client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from laneway.controllers.ledger.source import LedgerSource
from laneway.core.ledger.ledger import Ledger
from laneway.kube.client import Client
from laneway.web.access import Access, Question
from laneway.web.caches import Caches, Change
from laneway.web.history.recorder import History
from laneway.web.judging import Judging
from laneway.web.management import Management, Remote
from laneway.web.place import Place
from laneway.web.planning import Own, Planning
from laneway.web.rendering import Rendering, Texts
from laneway.web.server_state import ServerState
from laneway.web.session.sent import File
from laneway.web.tables.rows import Rows

T = TypeVar("T")


class User(Protocol):
    """The user who signed in."""

    @property
    def name(self) -> str: ...
    @property
    def access(self) -> Access: ...
    @property
    def client(self) -> Client:
        """Requests with the user's own token."""


class SessionUser(User, Protocol):
    """The same with what is known in a session."""

    @property
    def management(self) -> Management:
        """What the user sees of the Rancher management cluster."""

    @property
    def own(self) -> Own:
        """What the user has uploaded."""


@dataclass(frozen=True)
class Site:
    """What all visits share."""

    caches: Caches
    ledger: LedgerSource
    rendering: Rendering
    server: ServerState
    remote: Remote | None = None
    """The management cluster, where it is not the served one."""
    history: History | None = None
    """None: none is kept."""
    judging: Judging = field(default_factory=Judging)
    planning: Planning = field(default_factory=Planning)
    _rows: dict[str, Rows[Any]] = field(default_factory=dict)

    def rows(self, name: str, make: Callable[[], Rows[T]]) -> Rows[T]:
        """The rows of a table that are kept for all users; made when they are first asked for."""
        if name not in self._rows:
            self._rows[name] = make()
        return self._rows[name]

    def changed(self, change: Change) -> None:
        """Take a change into all rows that are kept."""
        for rows in self._rows.values():
            rows.changed(change)

    @property
    def texts(self) -> Texts:
        return self.rendering.texts


@dataclass
class Visit:
    """One look."""

    site: Site
    user: User
    place: Place
    csrf: str = ""
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What was sent, by field."""
    files: Mapping[str, File] = field(default_factory=dict)
    """Files that were sent, by field."""
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What is wrong with it, by field."""
    management: Management = field(default_factory=Management)
    """What the user sees of the Rancher management cluster."""
    own: Own = field(default_factory=Own)
    """What the user has uploaded."""
    data: dict[str, Any] = field(default_factory=dict)
    """What `prepare` of the page has fetched."""

    @property
    def caches(self) -> Caches:
        return self.site.caches

    @property
    def ledger(self) -> Ledger | None:
        """None until everything is known."""
        return self.site.ledger.ledger

    @property
    def texts(self) -> Texts:
        return self.site.texts

    @property
    def client(self) -> Client:
        return self.user.client

    def name(self, key: str) -> str:
        """What the address names: a part of the path."""
        return self.place.names[key]

    def may(self, question: Question) -> bool:
        """Whether the user has a right; False while that is not known."""
        return self.user.access.may(question)

    def sent(self, key: str, default: str = "") -> str:
        """The first value of a field that was sent."""
        return next(iter(self.form.get(key, ())), default)

    def all_sent(self, key: str) -> tuple[str, ...]:
        """Every value of a field that was sent and is not empty."""
        return tuple(value for value in self.form.get(key, ()) if value)
