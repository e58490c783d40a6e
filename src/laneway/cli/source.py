"""Which host a command looks at: the one that it runs on, or a simulated one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.cli.errors import Failure
from laneway.core.inventory import Inventory
from laneway.host.port import Executor, Host
from laneway.host.real import RealHost
from laneway.host.scan import scan

if TYPE_CHECKING:
    from laneway.sim.host import SimulatedHost
    from laneway.sim.spec import Spec


def host_of(simulate: str | None) -> Host:
    """The host that runs the command, or the one that `simulate` describes. Raises Failure."""
    return RealHost() if simulate is None else _simulated(simulate)


def look(simulate: str | None) -> Inventory:
    """Scan this host, or the one that `simulate` describes. Raises Failure."""
    return scan(host_of(simulate))


def _simulated(text: str) -> SimulatedHost:
    # The simulation is a third of the start of a command that does not simulate.
    from laneway.sim.dump import DumpError  # noqa: PLC0415 - as said above
    from laneway.sim.spec import build  # noqa: PLC0415 - as said above

    spec = one_simulated(text)
    try:
        return build(spec, spec.label)
    except DumpError as error:
        raise Failure(f"--simulate: {error}") from None


def one_simulated(text: str) -> Spec:
    """What `--simulate` describes, for a command that looks at one host."""
    from laneway.sim.spec import SpecError, parse_spec  # noqa: PLC0415 - slow to import

    try:
        spec = parse_spec(text)
    except SpecError as error:
        raise Failure(f"--simulate: {error}") from None
    if spec.count != 1:
        raise Failure(f"--simulate {text}: this command reads one host; leave the count out")
    return spec


def opened(
    simulate: str | None, state: str | None = None, root: str = "/"
) -> tuple[Host, Executor, str]:
    """The host or a simulated one, where its programs run, and what Laneway remembers of it.

    Nothing is remembered of a simulated host. `state`: the folder for that, if it is not the usual
    one; `root`: where the host's own file system is, which its programs have as their root.
    """
    if simulate is None:
        # Slow to import, and only looking needs neither.
        from laneway.host.executors.local import LocalExecutor  # noqa: PLC0415 - as said above
        from laneway.host.plans.state import STATE_FOLDER  # noqa: PLC0415 - as said above

        return RealHost(), LocalExecutor(root), state or STATE_FOLDER
    host = _simulated(simulate)
    return host, host, ""
