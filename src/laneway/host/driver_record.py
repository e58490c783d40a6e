"""What the driver toolkit remembers of a node, as others on the node read it.

The toolkit keeps it in a folder of its own inside Laneway's. It is only read here, together with
what the kernel has at the same moment: the one without the other can be out of date.
"""

from __future__ import annotations

import os

from laneway.core.driver_toolkit.standing import Standing, judge, unreadable
from laneway.core.driver_toolkit.state import State
from laneway.host.plans import files
from laneway.host.plans.files import StateError
from laneway.host.plans.state import StateFolder
from laneway.host.port import Host
from laneway.host.scan import driver_version

RECORD = os.path.join("driver", "state.json")
"""Below Laneway's state folder."""


def read_driver(host: Host, notes: StateFolder) -> Standing | None:
    """How the node's driver is; None where no toolkit has run."""
    try:
        state = files.read(os.path.join(notes.path, RECORD), State)
    except StateError as error:
        return unreadable(str(error))
    return None if state is None else judge(state, notes.boot, driver_version(host))
