"""The host that `laneway host` changes: this machine, or a simulated one to try things on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from laneway.cli.errors import Failure
from laneway.cli.source import one_simulated
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.files import StateError, advised
from laneway.host.plans.state import STATE_FOLDER, BusyError, open_state
from laneway.host.real import RealHost

ACTOR = "laneway host"


@contextmanager
def opened(simulate: str | None, state_folder: str | None) -> Iterator[Hardware]:
    """The host, with what Laneway remembers of it.

    A simulated host without a state folder is as it comes out of the box, and forgotten afterwards.
    """
    if state_folder == "":
        raise click.UsageError("--state-dir is empty; name a folder, or leave the option out")
    try:
        with ExitStack() as stack:
            if simulate is None:
                host = RealHost()
                state = open_state(state_folder or STATE_FOLDER, host)
                yield Hardware(host, LocalExecutor(), state)
                return
            if state_folder is None:
                temporary = tempfile.TemporaryDirectory(prefix="laneway-")
                state_folder = stack.enter_context(temporary)
            _make(state_folder)
            yield _simulated(simulate, state_folder)
    except StateError as error:
        raise Failure(str(error)) from error


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise Failure(f"--state-dir {folder} cannot be a folder: a file is there") from None
    except OSError as error:
        raise advised(error, error.filename or folder) from None


def _simulated(text: str, folder: str) -> Hardware:
    # The simulation is a third of the start of a command that does not simulate.
    from laneway.sim.dump import DumpError  # noqa: PLC0415 - as said above
    from laneway.sim.persistence import (  # noqa: PLC0415 - as said above
        HostLogError,
        open_simulated,
    )

    spec = one_simulated(text)
    try:
        host = open_simulated(spec, spec.label, os.path.join(folder, "simulated.jsonl"))
    except (DumpError, HostLogError) as error:
        raise Failure(f"--simulate: {error}") from None
    except OSError as error:
        raise advised(error, error.filename or folder) from None
    return Hardware(host, host, open_state(folder, host))


@contextmanager
def locked(hardware: Hardware) -> Iterator[None]:
    """Be the one who changes the host. Raises Failure that says who does so already."""
    try:
        with hardware.state.lock(ACTOR):
            yield
    except BusyError as error:
        raise Failure(error.refusal.words) from error
