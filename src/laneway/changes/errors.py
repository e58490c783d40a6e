"""Why a change was not made, or is not finished.

What the API server answers stays a `KubeError`. A text here names no option of a command: the
commands add these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from laneway.core.phrases import sentences
from laneway.kube.errors import NotFoundError

if TYPE_CHECKING:  # slow to import
    from laneway.views.answers import Answer


class ChangeError(Exception):
    """The change was not made as requested. The text says why, and what helps."""


class RefusedError(ChangeError):
    """Reasons against the change; each is a whole text."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(sentences(*reasons))
        self.reasons: Sequence[str] = reasons


class OvertakenError(ChangeError):
    """Another program changed the same object meanwhile. Nothing was written."""


class TooLateError(ChangeError):
    """No final answer came in time."""

    def __init__(self, last: Answer, node: str, seconds: float) -> None:
        """`last`: how far the agent of the node was."""
        super().__init__(_late(last, node, seconds, ""))
        self._facts = last, node, seconds

    def hinting(self, hint: str) -> str:
        """The text with a hint on how to wait longer."""
        return _late(*self._facts, f" ({hint})")


class UnfinishedError(ChangeError):
    """The change was accepted, and the agent is still at work."""

    def __init__(self, why: TooLateError | str, further: str) -> None:
        """`further`: what goes on, how to watch it and how to cancel it."""
        super().__init__(f"{why}. {further}")
        self.why = why
        self.further = further


class NotInstalledError(ChangeError):
    """The cluster lacks the definition of a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"the cluster has no kind {kind}. Install Laneway's definitions: laneway crds | "
            "kubectl apply --server-side -f -"
        )


def _late(last: Answer, node: str, seconds: float, hint: str) -> str:
    if last.kind == "none":
        return (
            f"no agent answered within {seconds:.0f} s: the agent of node {node} does not run, or "
            "cannot reach the API server. To see what runs there: kubectl get pods -A -o wide "
            f"--field-selector spec.nodeName={node}"
        )
    return f"not finished within {seconds:.0f} s{hint}. Last: {last.words}"


@contextlib.contextmanager
def installed(kind: str) -> Iterator[None]:
    """Tell a kind that the server does not know from an object that does not exist.

    For requests to a collection: what these do not find is the collection.
    """
    try:
        yield
    except NotFoundError:
        raise NotInstalledError(kind) from None
