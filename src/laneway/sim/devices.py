"""The devices of a simulated host: they come and go as files and are announced as kernel events."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laneway.core.uevent import Uevent
from laneway.sim.dump import Block
from laneway.sim.load import install, kernel_properties, uninstall
from laneway.sim.tree import Tree


class Devices:
    """What is installed in a tree, by path below /sys. Not locked: its host serialises access."""

    def __init__(self, tree: Tree, emit: Callable[[Uevent], None]) -> None:
        self.tree = tree
        self._emit = emit
        self._blocks: dict[str, Block] = {}
        self._sequence = 0

    def __contains__(self, path: str) -> bool:
        return path in self._blocks

    def __getitem__(self, path: str) -> Block:
        return self._blocks[path]

    def get(self, path: str) -> Block | None:
        return self._blocks.get(path)

    def load(self, blocks: Iterable[Block]) -> None:
        """Install devices that were there before anybody could listen."""
        for block in blocks:
            install(self.tree, block)
            self._blocks[block.path] = block

    def add(self, block: Block) -> None:
        self.load([block])
        self.announce("add", block.path)
        if "DRIVER" in block.properties:
            self.announce("bind", block.path)

    def remove(self, path: str) -> Block:
        block = self._blocks[path]
        if "DRIVER" in block.properties:
            self.announce("unbind", path)
        self.announce("remove", path)
        uninstall(self.tree, block)
        del self._blocks[path]
        return block

    def below(self, path: str) -> list[str]:
        """The device itself and all below it, in the order in which they go: deepest first."""
        inside = path + "/"
        found = [p for p in self._blocks if p == path or p.startswith(inside)]
        return sorted(found, key=lambda p: (-p.count("/"), p))

    def announce(self, action: str, path: str, **more: str) -> None:
        """Emit a kernel event about a device."""
        self._sequence += 1
        block = self._blocks[path]
        properties = {"ACTION": action, "DEVPATH": path}
        if "SUBSYSTEM" in block.properties:
            properties["SUBSYSTEM"] = block.properties["SUBSYSTEM"]
        properties |= kernel_properties(block) | more | {"SEQNUM": str(self._sequence)}
        self._emit(Uevent(action, path, properties))
