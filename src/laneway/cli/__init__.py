"""The `laneway` command: its subcommands, and how each of them ends.

`laneway --help` must be instant, so a subcommand is imported only when it runs; its name and short
text stand in the table below.

A command that fails prints one line that begins with `laneway:` and says what to do. Scripts read
the exit status (`statuses`). A traceback means a defect of Laneway and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from laneway.cli.errors import one_line
from laneway.cli.groups import Entry, LazyGroup
from laneway.cli.statuses import ExitStatus, epilog

COMMANDS = {
    "up": Entry("laneway.cli.commands.roles:up", "Run all of Laneway on this host, to try it out."),
    "devices": Entry("laneway.cli.commands.this_host:devices", "Show the devices of this host."),
    "gpus": Entry(
        "laneway.cli.commands.cluster_gpus:gpus",
        "Show the GPUs of the cluster and what still fits on them.",
    ),
    "top": Entry(
        "laneway.cli.commands.cluster_gpus:top", "Show GPUs, vGPUs and their holders, live."
    ),
    "capacity": Entry(
        "laneway.cli.commands.questions:capacity",
        "Show which devices are allocated and free, and what could start.",
    ),
    "export": Entry(
        "laneway.cli.commands.planning:export", "Write the cluster to a file, to plan elsewhere."
    ),
    "plan": Entry(
        "laneway.cli.commands.planning:plan", "Answer what would fit if the cluster changed."
    ),
    "history": Entry(
        "laneway.cli.commands.history:history", "Show who held which device, and when."
    ),
    "explain": Entry(
        "laneway.cli.commands.questions:explain",
        "Explain the state of a device or VM, and why it can or cannot be used.",
    ),
    "gpu": Entry(
        "laneway.cli.commands.cluster_gpus:gpu", "Enable or disable a GPU, and set its mode."
    ),
    "vgpu": Entry("laneway.cli.commands.cluster_gpus:vgpu", "Set the vGPUs of a GPU."),
    "claim": Entry("laneway.cli.commands.changes:claim", "Claim whole devices for VMs."),
    "release": Entry(
        "laneway.cli.commands.changes:release", "Release claimed devices, or all of a node."
    ),
    "doctor": Entry(
        "laneway.cli.commands.questions:doctor", "Find problems of this host or of the cluster."
    ),
    "vsphere": Entry(
        "laneway.cli.commands.questions:vsphere", "Show the GPUs of vCenters and their holders."
    ),
    "host": Entry(
        "laneway.cli.commands.host:host", "Change the devices of this host, without a cluster."
    ),
    "hosts": Entry(
        "laneway.cli.commands.hosts:hosts",
        "Show how far nodes are prepared for devices, and let them reboot.",
    ),
    "pools": Entry(
        "laneway.cli.commands.pools:pools",
        "Show and set the GPUs of guest clusters' machine pools.",
    ),
    "capture": Entry(
        "laneway.cli.commands.this_host:capture", "Write a dump of this host's devices."
    ),
    "takeover": Entry(
        "laneway.cli.commands.changes:takeover",
        "Take over from Harvester's controller, or go back.",
    ),
    "crds": Entry("laneway.cli.commands.install:crds", "Print the custom resource definitions."),
    "manifests": Entry(
        "laneway.cli.commands.install:manifests", "Print all objects that a cluster needs."
    ),
    "agent": Entry("laneway.cli.commands.roles:agent", "Run the agent of one node of a cluster."),
    "manager": Entry(
        "laneway.cli.commands.roles:manager", "Run the manager, of which one leads in a cluster."
    ),
    "webhook": Entry(
        "laneway.cli.commands.webhooks:webhook",
        "Run the webhook that reviews writes for the API server.",
    ),
    "pools-webhook": Entry(
        "laneway.cli.commands.webhooks:pools_webhook",
        "Run the webhook that reviews machine pools for Rancher's management cluster.",
    ),
    "ui": Entry("laneway.cli.commands.ui:ui", "Serve the web interface of a cluster."),
    "driver-toolkit": Entry(
        "laneway.cli.commands.driver_toolkit:driver_toolkit",
        "Install NVIDIA's vGPU host driver on a node, in a container.",
    ),
    "completion": Entry(
        "laneway.cli.completion:command", "Print the completion script of a shell."
    ),
}


COMPLETE = "_LANEWAY_COMPLETE"
"""The environment variable by which a shell's script asks for completions."""


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        # Importing importlib.metadata takes as long as the rest of the start.
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        click.echo(f"laneway {version('laneway')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{epilog()}\n\n'laneway COMMAND --help' describes a command.",
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
    """Give GPUs, vGPUs and PCI and USB devices to the VMs of a cluster."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run the command and exit with its status."""
    given = sys.argv[1:] if arguments is None else arguments
    if COMPLETE in os.environ:
        _complete(given)
    sys.exit(run(given))


def _complete(arguments: Sequence[str]) -> NoReturn:
    """Print completions and exit at once: a shell does not wait for threads that hang."""
    status: object = 1
    try:
        status = run(arguments)
    except SystemExit as ended:  # click's way to end
        status = ended.code
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(status if isinstance(status, int) else 0)


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status. A broken pipe is click's: quiet, status 1."""
    try:
        result = cli.main(
            list(arguments), prog_name="laneway", standalone_mode=False, color=_colours()
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        click.UsageError(one_line(error.format_message()), error.ctx).show()
        return error.exit_code
    except click.ClickException as error:
        return _failed(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return ExitStatus.INTERRUPTED
    except OSError as error:
        _drop_output()
        said = error.strerror or str(error)
        return _failed(f"{error.filename}: {said}" if error.filename else said)
    return result if isinstance(result, int) else 0


def _drop_output() -> None:
    """Where standard output takes no more, keep Python from trying again as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        from kubebasics.saying import mute  # noqa: PLC0415 - needed here only

        mute()


def _colours() -> bool | None:
    """False where colours are off (https://no-color.org); None: for terminals only."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if plain else None


def _failed(message: str, status: int = 1) -> int:
    click.echo(f"laneway: {one_line(message)}", err=True)
    return status
