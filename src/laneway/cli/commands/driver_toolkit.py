"""`laneway driver-toolkit`: the container that installs NVIDIA's vGPU host driver on its node."""

from __future__ import annotations

import click

from laneway.cli.commands.options import DRIVER_FOLDER, log_options
from laneway.cli.groups import Group

_state_dir = click.option(
    "--state-dir",
    envvar="LANEWAY_DRIVER_DIR",
    default=DRIVER_FOLDER,
    show_default=True,
    metavar="PATH",
    help="A folder on the node that survives restarts, for the packages and the state.",
)


@click.group(
    name="driver-toolkit",
    cls=Group,
    epilog="""\b
Example: on a node, in the container of the DaemonSet nvidia-driver-runtime.
    laneway driver-toolkit status
""",
)
def driver_toolkit() -> None:
    """Install NVIDIA's vGPU host driver on a node, and run its daemons."""


@driver_toolkit.command()
@click.option(
    "--location",
    envvar="DRIVER_LOCATION",
    default="",
    metavar="URL",
    help="The package, NVIDIA-Linux-x86_64-*-vgpu-kvm.run: a URL, or the absolute path of a file "
    "in a mounted folder.",
)
@click.option(
    "--driver-version",
    envvar="DRIVER_VERSION",
    default="",
    metavar="VERSION",
    help="The version of the package: 570.133.20.",
)
@click.option(
    "--sha256",
    envvar="DRIVER_SHA256",
    default="",
    metavar="HASH",
    help="The SHA-256 of the package. Nothing is run that has another one.",
)
@click.option(
    "--proxy",
    envvar="DRIVER_PROXY",
    default="",
    metavar="URL",
    help="The HTTP proxy through which the package is downloaded.",
)
@click.option(
    "--ca-file",
    envvar="DRIVER_CA_FILE",
    default="",
    metavar="PATH",
    help="Authorities of the location's server (PEM), in addition to those of the image.",
)
@_state_dir
@click.option(
    "--node-root",
    default="/host",
    show_default=True,
    metavar="PATH",
    help="The root of the node's file system: its kernel modules and kernel headers.",
)
@click.option(
    "--scratch-dir",
    default="/var/lib/laneway/scratch",
    show_default=True,
    metavar="PATH",
    help="A folder in which the package is unpacked and built.",
)
@log_options()
def run(
    *,
    location: str,
    driver_version: str,
    sha256: str,
    proxy: str,
    ca_file: str,
    state_dir: str,
    node_root: str,
    scratch_dir: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Install the driver and keep it in service, until SIGTERM.

    The command needs a privileged container in the node's PID namespace. It replaces a driver only
    while no vGPU exists and no process or VM has a GPU. If the new driver fails, it installs the
    previous one again.
    """
    from laneway.cli.logs import configure
    from laneway.cli.processes.driver_toolkit import run_driver_toolkit
    from laneway.core.driver_toolkit.settings import Settings
    from laneway.toolkit.places import Places

    configure(log_level, log_format)
    settings = Settings(
        location=location, version=driver_version, sha256=sha256, proxy=proxy, ca_file=ca_file
    )
    run_driver_toolkit(settings, Places(state=state_dir, node=node_root, scratch=scratch_dir))


@driver_toolkit.command()
@_state_dir
@click.option(
    "--timeout",
    type=click.IntRange(1, 600),
    default=20,
    show_default=True,
    metavar="SECONDS",
    help="How long the driver may take to answer.",
)
def ready(*, state_dir: str, timeout: int) -> None:
    """Exit with 0 if the driver is in service and answers: the readiness probe."""
    from laneway.cli.driver_status import check_ready

    check_ready(state_dir, timeout)


@driver_toolkit.command()
@_state_dir
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    help="The form of the output, as for kubectl. Default: text.",
)
def status(*, state_dir: str, output: str | None) -> None:
    """Show the driver of this node: which is requested, which is in service, and why."""
    from laneway.cli.driver_status import show_status

    show_status(state_dir, output)
