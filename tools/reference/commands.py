"""The page of commands, from the click commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from laneway.cli import cli
from reference.markdown import block, page, table

_INTRODUCTION = """
What `laneway COMMAND --help` prints, for all commands on one page. The commands that look at a
cluster find the API server as kubectl does: by `--kubeconfig`, `$KUBECONFIG`, `~/.kube/config`,
or in a pod by its ServiceAccount. [Exit statuses](exit-statuses.md) are the same for all of them.

A GPU is named by its node and address, `node1/08:00.0` or `node1/0000:08:00.0`, or by the name of
its SRIOVGPUDevice. A profile is named by its short name, `A2-4Q`; a count is added with `=`:
`A2-4Q=2`.
"""
_PREFORMATTED = "\b"


def commands() -> str:
    """All commands, each with its options."""
    context = _context(cli, None, "laneway")
    found = list(_walk(context))
    listed = [
        (f"[`{one.command_path}`](#{one.command_path.replace(' ', '-')})", _short(one))
        for one in found
    ]
    return page(
        "Commands",
        _INTRODUCTION,
        table(("command", ""), listed),
        *(_section(one) for one in found),
    )


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    return click.Context(command, parent=parent, info_name=name)


def _walk(context: click.Context) -> Iterator[click.Context]:
    """Every command that does something, in the order in which help lists them."""
    group = context.command
    if not isinstance(group, click.Group):
        yield context
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _walk(_context(command, context, name))


def _short(context: click.Context) -> str:
    return context.command.get_short_help_str(200)


def _section(context: click.Context) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [
        f"## {context.command_path}",
        block([usage]),
        _text(command.help or ""),
        table(("option", "meaning"), _options(context)),
        _text(command.epilog or ""),
    ]
    return "\n\n".join(part for part in parts if part)


def _options(context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and "--help" not in parameter.opts:
            yield f"`{record[0]}`", record[1]


def _text(raw: str) -> str:
    """Paragraphs as they are; what is preformatted there, here in a block."""
    found = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(raw)):
        lines = paragraph.strip("\n").split("\n")
        if lines[0].strip() != _PREFORMATTED:
            found.append("\n".join(lines))
            continue
        lines = lines[1:]
        while lines and not lines[0].startswith(" "):
            found.append(lines.pop(0))
        if lines:
            shown = inspect.cleandoc("\n" + "\n".join(lines)).split("\n")
            found.append(block(shown, "sh"))
    return "\n\n".join(found)
