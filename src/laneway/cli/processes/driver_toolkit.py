"""`laneway driver-toolkit run`: the driver of one node."""

from __future__ import annotations

import asyncio

from laneway.cli.errors import Failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.settings import Settings
from laneway.roles.stop import run_until_signal
from laneway.toolkit.places import Places
from laneway.toolkit.run import run_toolkit


def run_driver_toolkit(settings: Settings, places: Places) -> None:
    """Run until a signal ends it. Raises Failure when no driver can serve."""
    try:
        asyncio.run(run_until_signal(run_toolkit(settings, places)))
    except ToolkitError as error:
        raise Failure(f"{error.failure.reason}: {error.failure.message}") from None
