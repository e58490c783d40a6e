"""Where the tables are that ship with Laneway.

`importlib.resources` would bring what reads archives into the memory of every agent; Laneway is
always installed as files.
"""

from __future__ import annotations

import os

_FOLDER = os.path.join(os.path.dirname(__file__), "data")


def path(name: str) -> str:
    """The file of a table."""
    return os.path.join(_FOLDER, name)
