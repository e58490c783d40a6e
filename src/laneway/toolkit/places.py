"""Where a container of the toolkit finds and keeps what."""

from __future__ import annotations

import os
from typing import NamedTuple


class Places(NamedTuple):
    """Folders and files, as the container sees them."""

    state: str = "/var/lib/laneway/driver"
    """On the node, survives containers and reboots: packages by their hash, and the state."""
    node: str = "/host"
    """The node's root, read-only."""
    scratch: str = "/var/lib/laneway/scratch"
    """In the container or in a volume of the pod: here the package is unpacked and built."""
    modules: str = "/lib/modules"
    sources: str = "/usr/src"
    depmod: str = "/etc/depmod.d/laneway.conf"
    termination: str = "/dev/termination-log"
    """What Kubernetes shows of a container that has ended."""

    @property
    def record(self) -> str:
        return os.path.join(self.state, "state.json")

    @property
    def lock(self) -> str:
        return os.path.join(self.state, "lock")
