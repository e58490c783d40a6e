"""What a container of the toolkit has to do to a node for one driver.

A container begins without the driver's programs, while its modules may be in the kernel since an
earlier container, with VMs on them. They are replaced only where nothing uses them, and are left
alone where they are the right ones.
"""

from __future__ import annotations

from typing import Literal

from laneway.core.driver_toolkit.state import Driver

Action = Literal["install", "attach", "replace"]
"""Install all; install the programs alone, next to the modules in the kernel; unload them first."""


def decide(wanted: Driver, version: str, loaded: Driver | None, *, held: bool) -> Action:
    """`version`: of the module in the kernel, empty for none. `loaded`: what we put there."""
    if not version:
        return "install"
    if loaded and loaded.version == version:
        return "attach" if loaded == wanted else "replace"
    # Others loaded it, or we were killed while we did: some of its modules may be missing.
    return "attach" if held and version == wanted.version else "replace"
