"""Finds the headers of the running kernel, on the node or in the image, and makes them usable.

Headers refer to each other by absolute paths such as /usr/src/linux-headers-6.1.0-common, so the
node's are linked into the container where they are on the node.
"""

from __future__ import annotations

import contextlib
import os

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.host.real import RealHost
from laneway.toolkit.places import Places


def find_headers(places: Places, release: str) -> str:
    """The folder for `--kernel-source-path`. Raises ToolkitError where there is none."""
    node = RealHost(places.node)
    link = f"/lib/modules/{release}/build"
    on_node = [link, *(f"/usr/src/{name}" for name in _names(release))]
    for path in on_node:
        with contextlib.suppress(OSError):
            found = node.resolve(path)
            if node.exists(f"{found}/Makefile"):
                _link_sources(places)
                return places.node.rstrip("/") + found
    in_image = [f"{places.sources}/{name}" for name in _names(release)]
    for path in in_image:
        if os.path.isfile(f"{path}/Makefile"):
            return path
    raise ToolkitError(failure.headers_missing(release, [link, on_node[1], in_image[0]]))


def _names(release: str) -> tuple[str, ...]:
    """Where Debian and Ubuntu, RHEL and SUSE put them, below /usr/src."""
    version, _, flavour = release.rpartition("-")
    return (
        f"linux-headers-{release}",
        f"kernels/{release}",
        f"linux-{version}-obj/x86_64/{flavour}",
    )


def _link_sources(places: Places) -> None:
    """Have what the node has in /usr/src under the same paths here."""
    source = os.path.join(places.node, "usr/src")
    if not os.path.isdir(source):
        return  # they are next to the modules
    os.makedirs(places.sources, exist_ok=True)
    for name in os.listdir(source):
        target = os.path.join(places.sources, name)
        if not os.path.lexists(target):
            os.symlink(os.path.join(source, name), target)
