"""What a command found, in the form that `-o` asks for: the same forms as kubectl's.

A view holds all forms. JSON and YAML are the same document, `wide` is the table with all columns,
and `name` is one name per line, for `xargs` and `kubectl`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from laneway.api.fields import GROUP
from laneway.cli import table
from laneway.cli.errors import one_line


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One look at something, to be shown in any form."""

    document: Any
    """For programs."""
    names: Sequence[str]
    text: Callable[[bool], str]
    """For people; the argument says whether it may be wide."""
    warnings: Sequence[str] = ()
    """What is missing from it, and why; never on standard output."""


def table_view(
    columns: Sequence[table.Column],
    sections: Sequence[table.Section],
    *,
    document: Any,
    names: Sequence[str],
    empty: str,
    after: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> View:
    """A view whose text is a table; `empty` stands where it has no rows, `after` below it."""

    def text(wide: bool) -> str:
        shown = table.text(columns, sections, wide=wide) if sections else ""
        lines = after if sections else (empty, *after)
        return shown + "".join(f"{part}\n" for line in lines for part in table.fitted(line, 0))

    return View(document=document, names=names, text=text, warnings=warnings)


def rendered(view: View, output: str | None) -> str:
    """The view in one form, with a newline at its end."""
    match output:
        case "json":
            encoded = msgspec.json.format(msgspec.json.encode(view.document), indent=2)
            return f"{encoded.decode()}\n"
        case "yaml":
            import yaml  # noqa: PLC0415 - slow, and needed only here

            plain = msgspec.json.decode(msgspec.json.encode(view.document))
            return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100))
        case "name":
            return "".join(f"{one_line(name)}\n" for name in view.names)
        case _:
            return view.text(output == "wide")


def show(view: View, output: str | None) -> None:
    """Print the view."""
    warn(view)
    click.echo(rendered(view, output), nl=False)


def warn(view: View) -> None:
    """Print on standard error what is missing from the view."""
    for why in view.warnings:
        click.echo(one_line(f"laneway: warning: {why}"), err=True)


def object_name(api_kind: str, name: str) -> str:
    """An object as kubectl names it: `vgpudevice.devices.harvesterhci.io/node1-000008004`."""
    return f"{api_kind.lower()}.{GROUP}/{name}"
