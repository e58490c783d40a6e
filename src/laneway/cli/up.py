"""`laneway up`: all of Laneway on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

import click

from laneway.cli.errors import Failure, one_line
from laneway.cli.logs import configure, level_option
from laneway.cli.source import MODELS
from laneway.roles.stop import run_until_signal
from laneway.sim.spec import Spec, SpecError, parse_spec

if TYPE_CHECKING:
    from laneway.roles.up import Running

_WITHOUT_KAPILITE = (
    "'laneway up' needs the API server kapilite, which is not installed: "
    "run pip install 'laneway[up]'"
)


class _SpecType(click.ParamType[Spec]):
    name = "spec"

    def convert(
        self,
        value: str,
        param: click.Parameter | None,  # noqa: ARG002 - click's signature
        ctx: click.Context | None,  # noqa: ARG002 - click hands it over
    ) -> Spec:
        try:
            return parse_spec(value)
        except SpecError as error:
            raise Failure(str(error)) from error


def _default_data_dir() -> str:
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    if not os.path.isabs(base):
        # Relative to wherever one happens to be, the next start would not find it.
        raise Failure("there is no home directory to keep data in; choose one with --data-dir")
    return os.path.join(base, "laneway")


@click.command(
    epilog="""\b
Example: this machine and a simulated server with an NVIDIA A2.
    laneway up --simulate a2
"""
)
@click.option(
    "--data-dir",
    default=_default_data_dir,
    metavar="DIR",
    help="Where everything is kept; the same directory continues where it stopped. Default: "
    "~/.local/share/laneway.",
)
@click.option(
    "--simulate",
    type=_SpecType(),
    multiple=True,
    metavar="SPEC",
    help=f"Add simulated hosts: MODEL[:COUNT] ({MODELS}) or the path of a dump made by 'laneway "
    "capture' or umockdev-record. Pods and virtual machines (KubeVirt's) run on them. May be "
    "repeated.",
)
@click.option("--no-local", is_flag=True, help="Leave this machine's own devices out.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7443,
    show_default=True,
    help="Port of the API server on 127.0.0.1; 0 takes any free one.",
)
@click.option(
    "--dra",
    is_flag=True,
    help="Also publish devices in ResourceSlices: kubectl get resourceslices.",
)
@click.option(
    "--vsphere",
    is_flag=True,
    help="Also make machines of Cluster API on vSphere, with their GPUs. Its core is simulated, "
    "the vCenters are those that the objects name.",
)
@level_option("warning")
def up(
    *,
    data_dir: str,
    simulate: tuple[Spec, ...],
    no_local: bool,
    port: int,
    dra: bool,
    vsphere: bool,
    log_level: str,
) -> None:
    """Run all of Laneway on this machine: API server and agents.

    Prints what to type next once it is ready, and runs until Ctrl-C or SIGTERM.
    """
    if not data_dir:
        raise click.UsageError("--data-dir is empty")
    if no_local and not (simulate or vsphere):
        raise click.UsageError("--no-local leaves no host: add one with --simulate, or --vsphere")
    configure(log_level, json=False)  # a person reads it, also through a pipe
    try:
        from laneway.roles import up as role  # noqa: PLC0415 - slow to import, not for --help
    except ModuleNotFoundError as error:
        if error.name != "kapilite":
            raise
        raise Failure(_WITHOUT_KAPILITE) from error
    options = role.Options(
        data_dir, simulate, local=not no_local, port=port, dra=dra, vsphere=vsphere
    )
    try:
        asyncio.run(run_until_signal(role.up(options, click.echo, _say_ready)))
    except role.FAILURES as error:
        raise Failure(str(error)) from error
    click.echo("Stopped. The same command continues from here.")


def _say_ready(running: Running) -> None:
    width = max((len(host.node) for host in running.hosts), default=0)
    lines = ["", "Laneway is ready."]
    if running.hosts:
        lines.append("")
    lines += [f"  {host.node:<{width}}  {one_line(host.about)}" for host in running.hosts]
    if running.forgotten:
        names = ", ".join(running.forgotten)
        lines += ["", f"Known from an earlier run, without a host in this one: {names}"]
    lines += ["", "In another terminal:", ""]
    lines.append(f"  export KUBECONFIG={shlex.quote(running.kubeconfig)}")
    kubectl = shlex.quote(_kubectl())
    if running.hosts:
        lines.append(f"  {kubectl} get pcidevices,sriovgpudevices,vgpudevices -o wide")
    if running.vsphere:
        lines.append(f"  {kubectl} get vcenters,vspherehosts,vspherereservations -A")
        lines.append(f"  {kubectl} get clusters,machinedeployments,machines,vspheremachines -A")
    if running.example:
        name, profile = running.example
        # The profile's name is from the driver or a dump: it may not end the quotes, nor the line.
        patch = shlex.quote(json.dumps({"spec": {"enabled": True, "vGPUTypeName": profile}}))
        lines.append(f"  {kubectl} patch vgpudevice {name} --type merge -p {patch}")
        lines.append(f"  {kubectl} describe vgpudevice {name}")
    lines += ["", f"Metrics: {running.metrics}", "Stop with Ctrl-C."]
    click.echo("\n".join(lines))


def _kubectl() -> str:
    """How to call kubectl here: by its name, or where pip put it beside this Python."""
    if shutil.which("kubectl"):
        return "kubectl"
    beside = os.path.join(os.path.dirname(sys.executable), "kubectl")
    return beside if os.path.exists(beside) else "kubectl"
