"""The `laneway` command: what every subcommand shares, and how each of them ends.

`laneway --help` must be instant and so must a subcommand that needs no API, so a subcommand's
module is imported only when that subcommand runs; name and short text stand in the table below.

A command that fails says so in one line that begins with `laneway:` and says what to do. Scripts
read the exit status: 0 done, 1 failed, 2 called wrongly, 3 the answer to a question is no, 4 not
finished in time and going on, 130 interrupted. A traceback means a defect of Laneway and nothing
else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

from laneway.cli.errors import one_line


class _Entry(NamedTuple):
    target: str
    """`module:attribute`"""
    help: str


COMMANDS = {
    "up": _Entry("laneway.cli.up:up", "Run all of Laneway on this host, to try it out."),
    "devices": _Entry("laneway.cli.devices:devices", "Show this host's devices."),
    "explain": _Entry(
        "laneway.cli.explain:explain", "Explain one device: its state, and whether a VM can use it."
    ),
    "gpus": _Entry("laneway.cli.gpus:gpus", "Show a cluster's GPUs and what still fits on them."),
    "gpu": _Entry("laneway.cli.gpu:gpu", "Enable or disable a GPU of a cluster, and set its mode."),
    "vgpu": _Entry("laneway.cli.vgpu:vgpu", "Choose the vGPUs of a GPU of a cluster."),
    "capacity": _Entry(
        "laneway.cli.capacity:capacity",
        "Show how a cluster's devices are allocated, and what could start.",
    ),
    "vsphere": _Entry(
        "laneway.cli.vsphere:vsphere", "Show the GPUs of vCenters, their users and what is free."
    ),
    "host": _Entry(
        "laneway.cli.host.commands:host", "Change this host's devices, without any cluster."
    ),
    "doctor": _Entry(
        "laneway.cli.doctor:doctor", "Find what is wrong with this host or the cluster."
    ),
    "takeover": _Entry(
        "laneway.cli.takeover:takeover", "Take over from Harvester's controller, or go back to it."
    ),
    "give-back": _Entry(
        "laneway.cli.give_back:give_back", "Give a cluster's devices back to their nodes."
    ),
    "capture": _Entry("laneway.cli.capture:capture", "Write a dump of this host's devices."),
    "crds": _Entry("laneway.cli.crds:crds", "Print the custom resource definitions."),
    "manifests": _Entry(
        "laneway.cli.manifests:manifests", "Print all objects that a cluster needs, for kubectl."
    ),
    "agent": _Entry("laneway.cli.agent:agent", "Run the agent of one node of a cluster."),
    "manager": _Entry(
        "laneway.cli.manager:manager", "Run what a cluster needs one of: one of several leads."
    ),
    "webhook": _Entry(
        "laneway.cli.webhook:webhook", "Judge what is to be written, for the API server."
    ),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is used, and not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if (entry := COMMANDS.get(cmd_name)) is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        # Importing importlib.metadata takes as long as the rest of the start.
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        click.echo(f"laneway {version('laneway')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="'laneway COMMAND --help' says more about a command.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def cli() -> None:
    """Bring GPUs, and any PCI device, from the slot to the virtual machine."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run the command and exit with its status."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status. A broken pipe is click's: quiet, status 1."""
    try:
        result = cli.main(
            list(arguments), prog_name="laneway", standalone_mode=False, color=_colours()
        )
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _failed(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return result if isinstance(result, int) else 0


def _colours() -> bool | None:
    """False where nobody wants any: https://no-color.org; None: where a terminal reads it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if plain else None


def _failed(message: str, status: int = 1) -> int:
    click.echo(f"laneway: {one_line(message)}", err=True)
    return status
