"""The folder in which Laneway remembers, on the node itself, what it does to hardware."""

from __future__ import annotations


class StateFolder:
    """One node's state folder, for one boot of the node."""

    def __init__(self, path: str, boot: str) -> None:
        self.path = path
        self.boot = boot
