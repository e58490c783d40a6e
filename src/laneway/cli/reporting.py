"""The result of a command that changes something, for `-o json`, `yaml` and `name`.

The progress that people read goes to standard error then, so that standard output is one document.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from laneway.cli.output import View, object_name, show


class Result(msgspec.Struct, rename="camel"):
    """What came of a change; filled in by the command."""

    gpu: str = ""
    kind: str = ""
    """Of the object that holds the desired state."""
    name: str = ""
    dry_run: bool = False
    state: str = ""
    """Planned, Stored or Done."""
    reason: str = ""
    message: str = ""
    steps: Sequence[str] = ()
    """What a dry run would do."""
    fits_afterwards: Mapping[str, int] = {}


@contextlib.contextmanager
def reported(output: str | None) -> Iterator[Result]:
    """The result to fill in; printed at the end if a form is chosen and nothing failed."""
    result = Result()
    if output is None:
        yield result
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield result
    names = [object_name(result.kind, result.name)]
    show(View(document=result, names=names, text=lambda _: ""), output)
