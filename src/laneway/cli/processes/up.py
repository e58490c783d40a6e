"""`laneway up`: all of Laneway on this host."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubebasics.saying import say
from laneway.cli.errors import Failure, one_line
from laneway.roles.stop import run_until_signal
from laneway.sim.spec import Spec, SpecError, parse_spec

if TYPE_CHECKING:
    from laneway.roles.up import Running

_WITHOUT_KAPILITE = (
    "'laneway up' needs the API server kapilite, which is not installed: run pip install "
    "'laneway[up]'"
)


def run_everything(
    data_dir: str,
    simulate: Sequence[str],
    *,
    local: bool,
    port: int,
    dra: bool,
    vsphere: bool,
    cluster_api: bool,
    rancher: bool,
    ui_port: int,
    endpoint: str,
) -> None:
    """Run until a signal ends it. Raises Failure. `endpoint`: for traces; empty for none."""
    specs = tuple(map(_spec, simulate))
    try:
        from laneway.roles import up as role  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        if error.name != "kapilite":
            raise
        raise Failure(_WITHOUT_KAPILITE) from error
    options = role.Options(
        data_dir,
        specs,
        local=local,
        port=port,
        dra=dra,
        vsphere=vsphere,
        cluster_api=cluster_api,
        rancher=rancher,
        ui_port=ui_port,
        endpoint=endpoint,
    )
    try:
        asyncio.run(run_until_signal(role.up(options, say, _say_ready)))
    except role.FAILURES as error:
        raise Failure(str(error)) from error
    say("Stopped. The same command continues from here.")


def _spec(text: str) -> Spec:
    try:
        return parse_spec(text)
    except SpecError as error:
        raise Failure(str(error)) from error


def _say_ready(running: Running) -> None:
    width = max((len(host.node) for host in running.hosts), default=0)
    lines = ["", "Laneway is ready."]
    if running.hosts:
        lines.append("")
    lines += [f"  {host.node:<{width}}  {one_line(host.about)}" for host in running.hosts]
    if running.forgotten:
        names = ", ".join(running.forgotten)
        lines += ["", f"Known from an earlier run, without a host in this one: {names}"]
    lines += ["", "Web interface; this address signs you in, once:", "", f"  {running.ui}"]
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
    say("\n".join(lines))


def _kubectl() -> str:
    """How to call kubectl here: by its name, or where pip put it next to this Python."""
    if shutil.which("kubectl"):
        return "kubectl"
    installed = os.path.join(os.path.dirname(sys.executable), "kubectl")
    return installed if os.path.exists(installed) else "kubectl"
