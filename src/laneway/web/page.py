"""What the interface consists of: pages that show, and actions that change.

A page gives the values of its template from what the caches hold, without waiting, because the
stream of changes asks for them again and again. What has to be asked of the API server with the
user's own token is fetched before, by `prepare`; only parts of the page that are not live show it.

An action has the address of the page with its form. It ends at another page, or at the same form
with what was typed and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import unquote

from laneway.web.access import Question
from laneway.web.stream.tab import PAUSE_SECONDS

if TYPE_CHECKING:
    from laneway.web.caches import Change
    from laneway.web.visit import Visit

Outcome = Literal["done", "unchanged", "refused", "unknown", "left"]

Context = Mapping[str, Any]
"""The values of a template."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class NotFound(Exception):  # noqa: N818 - an answer, not an error
    """What the address names does not exist; the text says what it was."""


async def _nothing(_visit: Visit) -> None:
    return


class Page(NamedTuple):
    """One page, or one kind of page."""

    pattern: str
    """Its path: `/gpus/{name}`."""
    template: str
    context: Callable[[Visit], Context]
    kinds: frozenset[str] = frozenset()
    """The caches that its live parts are drawn from, by name; `ledger` for the ledger."""
    title: str = ""
    """Id of the text of its title; a context with `title` says it better."""
    needs: tuple[Question, ...] = ()
    """The rights without which the page shows nothing."""
    asks: tuple[Question, ...] = ()
    """The rights that its buttons depend on."""
    prepare: Callable[[Visit], Awaitable[None]] = _nothing
    meanwhile: Callable[[Visit, Callable[[Change], None]], Awaitable[None]] | None = None
    """Runs while a browser has the page open, and calls what it is given for each change that it
    sees. With it, `prepare` is called for the stream too, so live parts may show what it has
    fetched."""
    pause: float = PAUSE_SECONDS
    """For so long after a drawing its live parts are not drawn again."""


class Done(NamedTuple):
    """The change was made; the user goes on at another page, with a word about what was done."""

    url: str
    message: str = ""


class Again(NamedTuple):
    """The change was refused; the form is shown again, with the problems at its fields.

    Problems of no field are under the empty name.
    """

    problems: Mapping[str, Sequence[str]]


class Item(NamedTuple):
    """What became of one of several changes."""

    title: str
    url: str
    outcome: Outcome
    words: str = ""
    """What was done, or why not."""


class Report(NamedTuple):
    """Several changes were made or refused, each for itself; the user sees what became of each."""

    title: str
    items: Sequence[Item]
    url: str
    """Where the user goes on."""
    back_url: str = ""
    """Where the user can undo what was done, if not all was."""


class Action(NamedTuple):
    """What a form does that is sent to the address of a page."""

    pattern: str
    act: Callable[[Visit], Awaitable[Done | Again | Report]]
    """What was sent is in `visit.form`."""
    file_bytes: int = 0
    """So large may a file be that its form sends; 0: it sends none."""


class Routes:
    """Which page or action an address means."""

    def __init__(self, pages: Iterable[Page], actions: Iterable[Action]) -> None:
        self._pages = [(_compiled(page.pattern), page) for page in pages]
        self._actions = [(_compiled(action.pattern), action) for action in actions]

    def page(self, path: str) -> tuple[Page, Mapping[str, str]] | None:
        """The page of a quoted path, and what the pattern names."""
        for pattern, page in self._pages:
            if found := pattern.fullmatch(path):
                return page, _names(found)
        return None

    def action(self, path: str) -> Action | None:
        """The action of a quoted path."""
        return next((action for pattern, action in self._actions if pattern.fullmatch(path)), None)

    def file_bytes(self, path: str) -> int:
        """So large may a file be that is sent to a quoted path; 0: none is taken there."""
        action = self.action(path)
        return 0 if action is None else action.file_bytes


def _compiled(pattern: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(pattern)
    literal, names = parts[::2], parts[1::2]
    text = re.escape(literal[0])
    for name, after in zip(names, literal[1:], strict=True):
        text += f"(?P<{name}>[^/]+){re.escape(after)}"
    return re.compile(text)


def _names(found: re.Match[str]) -> Mapping[str, str]:
    return {name: unquote(value) for name, value in found.groupdict().items()}
